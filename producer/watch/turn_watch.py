"""Watching turns on behalf of clients: what is said in them, and that they end. One per API process.

The stream in Redis tells while it goes on, the row tells how it ended; the end that a client sees is always made of the
row. So a watch ends well whatever becomes of Redis: what the stream does not have (expired, flushed, away, or the turn was
ended by somebody who is no worker) is said from the table, as a `reset` with the reply's text and the end.

All watches share the looks: they fall on common ticks, and those of one tick are one read of Redis and one query.
"""

import json
import math
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turnstile.archive.reads import TurnKey
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.queries.turns import Standing, TurnRecord, read_standings, read_turns
from turnstile.streaming.event import LAST_WORDS, EventId, EventKind, TurnEvent, name_stream
from turnstile.streaming.stream import PAGE, EventReader, Reading
from turnstile.streaming.subscriptions import EventHints, Listener
from turnstile.turn.status import TurnStatus

TICK_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
GROWTH = 1.5

STANDINGS_BATCH = 1000
RECORDS_BATCH = 20
"""Few, because each may have a reply of a megabyte."""


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell a client. `data` is JSON text."""

    kind: EventKind
    data: str
    id: EventId | None = None


class TurnWatch:
    """Watches turns for clients of this process."""

    def __init__(self, settings: Settings, reads: Database, redis: Guarded) -> None:
        self._prefix = settings.redis_prefix
        self._longest_pause = min(LONGEST_PAUSE_SECONDS, settings.stream_heartbeat_seconds)
        self._reader = EventReader(redis)
        self._hints = EventHints(redis)
        self._standing: Batcher[TurnKey, Standing | None] = Batcher(
            lambda wanted: read_standings(reads, wanted), limit=STANDINGS_BATCH
        )
        self._record: Batcher[TurnKey, TurnRecord | None] = Batcher(
            lambda wanted: read_turns(reads, wanted), limit=RECORDS_BATCH
        )
        self._stopping = False

    def stop(self) -> None:
        """Ends all watches: the process must go, and their clients are to go on elsewhere."""
        self._stopping = True
        self._hints.tell_all()

    async def close(self) -> None:
        """Ends all watches, and the subscription."""
        self.stop()
        await self._hints.close()

    async def find(self, tenant_id: str, turn_id: UUID) -> Standing | None:
        """How the turn stands; None if the tenant has no such turn. Raises DatabaseUnavailableError.

        Shared like all the rest: after a restart a thousand clients come back at once.
        """
        return await self._standing(TurnKey(tenant_id, turn_id))

    async def until_ended(self, turn: Standing, seconds: float) -> TurnRecord | None:
        """The turn, if it ends within `seconds`: the moment that it does, as long as Redis is there. Else None."""
        deadline = time.monotonic() + seconds
        looks = _Looks(self._longest_pause)
        with self._hints.listen(self._key(turn), only_ends=True) as listener:
            while True:
                seen = await self._look(turn)
                if isinstance(seen, _Ended):
                    return seen.record
                left = deadline - time.monotonic()
                if left <= 0 or self._stopping:
                    return None
                await looks.pause(listener, at_most=left)

    async def was_told(self, turn: Standing, last: EventId) -> bool:
        """Whether whoever has seen the event `last` of an ended turn has seen the end."""
        if last.n > LAST_WORDS:
            return True
        before = EventId(last.fence, last.n - 1) if last.n else None
        events = await self._reader.read(Reading(self._key(turn), before))
        return any(event.id == last and event.saying.kind.ends for event in events or ())

    async def follow(self, turn: Standing, after: EventId | None) -> AsyncGenerator[Told | None, None]:
        """All that is said in the turn after the event `after` (None: from the start), and its one end.

        None in between is a sign of life. Without an end it ends only because of `stop`.
        """
        following = _Following(turn, after)
        looks = _Looks(self._longest_pause)
        with self._hints.listen(self._key(turn)) as listener:
            while not (following.ended or self._stopping):
                events = await self._reader.read(Reading(self._key(turn), following.after))
                for event in events or ():
                    if not following.take(event):
                        continue
                    if not event.saying.kind.ends:
                        yield Told(event.saying.kind, event.saying.data, event.id)
                        continue
                    while (seen := await self._look(turn)) is None and not self._stopping:
                        yield None
                        await looks.pause(listener)
                    for told in following.conclude(event, seen) if seen is not None else ():
                        yield told
                if events:
                    # It still speaks: its last words may be on their way, even if the turn had ended when we came.
                    following.expects_end = False
                    looks.start_over()
                if following.ended or (events and len(events) == PAGE):
                    continue
                # A worker says the end in the stream before it hints at it. An end that is not there was nobody's who
                # speaks (a cancel of a waiting turn): no last words are on their way.
                following.expects_end |= not events and listener.take_end()
                heard = False
                if events or not following.expects_end:
                    yield None
                    heard = await looks.pause(listener)
                if heard and events is not None:
                    continue
                # Nobody says anything any more: perhaps because the turn has ended without saying so.
                seen = await self._look(turn)
                if not isinstance(seen, _Ended):
                    following.expects_end = False
                elif following.expects_end or events is None:
                    for told in following.close(seen):
                        yield told
                else:
                    # Ended this moment: its last words may be on their way.
                    following.expects_end = True
                    looks.start_over()
                    await looks.pause(listener)

    async def _look(self, turn: Standing) -> "Standing | _Ended | None":
        """None: it can't be known now."""
        try:
            key = TurnKey(turn.tenant_id, turn.id)
            standing = await self._standing(key)
            if standing is None or not standing.status.is_terminal:
                return standing
            record = await self._record(key)
        except DatabaseUnavailableError:
            return None
        # A redrive may have come between the two.
        return _Ended(standing.fence, record) if record is not None and record.status.is_terminal else None

    def _key(self, turn: Standing) -> str:
        return name_stream(self._prefix, turn.tenant_id, turn.session_id, turn.id)


class _Following:
    """What one client has been told, and what that makes of what comes next."""

    def __init__(self, turn: Standing, after: EventId | None) -> None:
        self.after = after
        self.expects_end = turn.status.is_terminal
        self.ended = False
        self._misses_some = False

    def take(self, event: TurnEvent) -> bool:
        """Whether to tell it. After a gap nothing is told that does not begin anew, or end."""
        self._misses_some = not event.follows(self.after) if not self._misses_some else not event.begins_anew
        self.after = event.id
        return not self._misses_some or event.saying.kind.ends

    def conclude(self, event: TurnEvent, seen: "Standing | _Ended") -> Iterator[Told]:
        """The worker's word that the turn has ended, filled in from the row. It may have been put to work again since."""
        if not isinstance(seen, _Ended) or seen.fence != event.id.fence:
            now = seen.record if isinstance(seen, _Ended) else seen
            yield Told(EventKind.STATUS, _json({"status": now.status, "attempt": now.attempt}), event.id)
            return
        if self._misses_some or not json.loads(event.saying.data).get("said"):
            # Without an id: whoever loses the connection before the end is told both again.
            yield from _whole_text(seen.record, None)
        self.ended = True
        yield _end(seen.record, event.id)

    def close(self, seen: "_Ended") -> Iterator[Told]:
        """The end of a turn whose stream does not say so."""
        whole = EventId(seen.fence, LAST_WORDS)
        if self.after != whole:
            yield from _whole_text(seen.record, whole)
        self.ended = True
        yield _end(seen.record, EventId(seen.fence, LAST_WORDS + 1))


@dataclass(frozen=True, slots=True)
class _Ended:
    """A turn that has ended, and the fence of its last claim."""

    fence: int
    record: TurnRecord


class _Looks:
    """When to look next: on a common tick, a little later each time that there was nothing."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest = longest_seconds
        self.start_over()

    def start_over(self) -> None:
        """Something happened: more may follow soon."""
        self._pause = min(TICK_SECONDS, self._longest)

    async def pause(self, listener: Listener, *, at_most: float = math.inf) -> bool:
        """Whether a hint came before the time to look for oneself."""
        now = time.monotonic()
        tick = min(TICK_SECONDS, self._longest)
        seconds = math.ceil((now + self._pause) / tick) * tick - now
        self._pause = min(self._longest, self._pause * GROWTH)
        return await listener.wait(min(seconds, at_most))


def _whole_text(record: TurnRecord, at: EventId | None) -> Iterator[Told]:
    if record.status is TurnStatus.SUCCEEDED and isinstance(record.output, str):
        yield Told(EventKind.RESET, _json({"text": record.output, "attempt": record.attempt}), at)


def _end(record: TurnRecord, at: EventId) -> Told:
    told: dict[str, Any] = {"turn_id": str(record.id), "status": record.status}
    match record.status:
        case TurnStatus.SUCCEEDED:
            told["output"] = record.output
        case TurnStatus.FAILED:
            told["error"] = {"class": record.error_class, "message": record.error}
            return Told(EventKind.ERROR, _json(told), at)
        case _:
            told["reason"] = record.cancel_reason
    return Told(EventKind.END, _json(told), at)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
