"""The stream of a turn's events in Redis: written by the worker of the turn, read by the API.

    events:turn:{<tenant>/<session>}:<turn id>      a stream whose entry ids are our event ids, with a time to live

Redis refuses an entry whose id is not above the last, and the fence comes first in our ids. So the stream is fenced like the
row: a superseded worker can't append. Nothing depends on the stream: a reader that does not find its events there gets the end
of the turn from Postgres (`producer.watch.turn_watch`).

Each append also publishes a hint on a channel of the key's name, and the first of an attempt on the channel of its session, whose
name is that of the key without `:<turn id>`. Hints may get lost, so readers also poll.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from turnstile.backends.batcher import Batcher
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import script
from turnstile.config.settings import Settings
from turnstile.errors import ContentsUnreadableError
from turnstile.sealing.contents import PLAIN, Contents
from turnstile.sealing.place import Place, event_column
from turnstile.streaming.event import EventId, MalformedEventIdError, Saying, TurnEvent
from turnstile.streaming.partial_reply import UNKNOWN, PartialReply, fold_events

APPEND_BATCH = 100
CALL_CHARACTERS = 1_000_000
"""Characters of events in one call of several appends. A busy Redis takes them well within its share of the lease."""
READ_BATCH = 200
PAGE = 100
"""Events of one turn in one response: how far a reader may be ahead of its client."""
MOST_CHARACTERS = 4_000_000
"""Characters of events that `read_so_far` reads. A reply is shorter; other events of a handler may be many."""

# An append is applied whole or not at all, and a repeat after a lost response finds its own entries. It restarts the
# stream (and drops earlier entries) or continues it without a gap. If entries before it are missing, after a flush or a
# failover, the result is 'lost': a gap would be invisible to readers.
APPEND = """
local fence, first = tonumber(ARGV[1]), tonumber(ARGV[2])
local final = first + (#ARGV - 5) / 2 - 1
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local last_fence, last_n = 0, 0
if last[1] then
    last_fence, last_n = string.match(last[1][1], '^(%d+)-(%d+)$')
    last_fence, last_n = tonumber(last_fence), tonumber(last_n)
end
if last_fence > fence then return 'superseded' end
if not (last_fence == fence and last_n == final) then
    local anew = ARGV[3] == 'anew'
    if not anew and not (last_fence == fence and last_n == first - 1) then return 'lost' end
    for n = first, final do
        local at = 6 + 2 * (n - first)
        redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. string.format('%d', n), 'kind', ARGV[at], 'data', ARGV[at + 1])
    end
    if anew then redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1] .. '-' .. ARGV[2]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PUBLISH', KEYS[1], ARGV[5])
if first == 1 then redis.call('PUBLISH', string.sub(KEYS[1], 1, -38), ARGV[5]) end
return 'appended'
"""


class Appended(StrEnum):
    APPENDED = "appended"
    LOST = "lost"
    """Not applied: the entries before it are not in the stream (any more). The caller must restart the stream."""
    SUPERSEDED = "superseded"
    """Not applied: a newer claim has written."""
    AWAY = "away"
    """Redis did not respond, or was not called; the append may have been applied."""


@dataclass(frozen=True, slots=True)
class Append:
    """Consecutive events of one attempt, at least one."""

    key: str
    events: Sequence[TurnEvent]


class EventWriter:
    """Appends to the streams of a worker's turns; simultaneous appends share a round trip."""

    def __init__(self, settings: Settings, redis: GuardedRedis, contents: Contents = PLAIN) -> None:
        self._redis = redis
        self._contents = contents
        self._milliseconds = int(settings.events_ttl_seconds * 1000)
        self.append: Batcher[Append, Appended] = Batcher(self._append_many, limit=APPEND_BATCH)

    async def _append_many(self, appends: Sequence[Append]) -> Sequence[Appended]:
        answers: list[Appended] = []
        while remaining := appends[len(answers) :]:
            answers += await self._call(_as_many_as_fit(remaining))
        return answers

    async def _call(self, appends: Sequence[Append]) -> Sequence[Appended]:
        answers = await self._redis.run(
            [
                script(APPEND, [append.key], *_arguments(append, self._milliseconds, self._contents))
                for append in appends
            ]
        )
        if answers is None:
            return [Appended.AWAY] * len(appends)
        return [Appended.AWAY if isinstance(answer, Exception) else Appended(answer) for answer in answers]


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader's position: it wants the events after it."""

    key: str
    after: EventId | None
    """None: from the start."""


class EventReader:
    """Reads the streams for an API process; simultaneous reads share a round trip, on one connection."""

    def __init__(self, redis: GuardedRedis, contents: Contents = PLAIN) -> None:
        self._redis = redis
        self._contents = contents
        self.read: Batcher[Reading, list[TurnEvent] | None] = Batcher(self._read_many, limit=READ_BATCH)
        """Up to PAGE events; None if Redis is away."""

    async def read_so_far(self, key: str) -> PartialReply:
        """What the attempt that writes to this stream has said so far. UNKNOWN if Redis is away, or if it is very much."""
        events: list[TurnEvent] = []
        characters = 0
        while characters <= MOST_CHARACTERS:
            page = await self.read(Reading(key, events[-1].id if events else None))
            if page is None:
                return UNKNOWN
            events += page
            characters += sum(len(event.saying.data) for event in page)
            if len(page) < PAGE:
                return fold_events(events)
        return UNKNOWN

    async def _read_many(self, readings: Sequence[Reading]) -> Sequence[list[TurnEvent] | None]:
        answers = await self._redis.run(
            [
                ("XRANGE", reading.key, "-" if reading.after is None else f"({reading.after}", "+", "COUNT", PAGE)
                for reading in readings
            ]
        )
        if answers is None:
            return [None] * len(readings)
        return [
            None if isinstance(answer, Exception) else list(_read_entries(answer, reading.key, self._contents))
            for reading, answer in zip(readings, answers, strict=True)
        ]


def _as_many_as_fit(appends: Sequence[Append]) -> Sequence[Append]:
    """The first appends that fit into one call; one at least."""
    characters = 0
    for place, append in enumerate(appends):
        characters += sum(len(event.saying.data) for event in append.events)
        if characters > CALL_CHARACTERS and place:
            return appends[:place]
    return appends


def _arguments(append: Append, milliseconds: int, contents: Contents) -> list[Any]:
    first, last = append.events[0], append.events[-1]
    sayings = [
        word
        for event in append.events
        for word in (
            event.saying.kind.value,
            contents.seal(event.saying.data, _place(append.key, event.id, event.saying.kind.value)),
        )
    ]
    mode = "anew" if first.begins_anew else "next"
    return [first.id.fence, first.id.n, mode, milliseconds, last.saying.kind.value, *sayings]


def _read_entries(entries: Sequence[tuple[str, Sequence[str]]], key: str, contents: Contents) -> Iterator[TurnEvent]:
    for entry_id, words in entries:
        fields = dict(zip(words[::2], words[1::2], strict=True))
        try:
            place = EventId.parse(entry_id)
        except MalformedEventIdError:
            # Beyond the ids of all workers, so none of their events can come after it.
            return
        kind = fields.get("kind", "")
        try:
            data = contents.open_sealed(fields.get("data", ""), _place(key, place, kind))
        except ContentsUnreadableError:
            kind = data = ""
        yield TurnEvent(place, Saying.read(kind, data))


def _place(key: str, event_id: EventId, kind: str) -> Place:
    # The key names the tenant, the session and the turn.
    return Place("", "", None, event_column(key, str(event_id), kind))
