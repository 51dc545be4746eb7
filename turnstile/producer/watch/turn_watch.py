"""Watches turns for clients: their events and their end. One per API process.

The Redis stream has the events of a running turn. The end that a client gets always comes from the row, so a watch ends correctly
even without Redis. If the stream lacks the end (expired, flushed, unreachable, or the turn was not ended by a worker), the watch
sends a `reset` with the reply's text and the end from the table.

All watches share their reads: they happen on common ticks, with one Redis read and one query for each tick.
"""

import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turnstile.archive.reads import TurnKey
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.watch.looks import Looks
from turnstile.queries.turns import Standing, read_standings, read_turns
from turnstile.sealing.contents import Unopened
from turnstile.streaming.event import LAST_WORDS, EventId, EventKind, TurnEvent, name_session, name_stream
from turnstile.streaming.event_hints import EventHints, Listener
from turnstile.streaming.stream import PAGE, EventReader, Reading
from turnstile.streaming.wires.sse import SseEvent
from turnstile.turn.error_classes import text_for_clients
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode
from turnstile.turn.turn_record import TurnRecord

LONGEST_PAUSE_SECONDS = 2.0

STANDINGS_BATCH = 1000
RECORDS_BATCH = 20
"""Rows per query. Few, because each may have a reply of a megabyte."""


class TurnWatch:
    def __init__(self, settings: Settings, reads: Database, redis: GuardedRedis) -> None:
        self._prefix = settings.redis_prefix
        self._longest_pause = min(LONGEST_PAUSE_SECONDS, settings.stream_heartbeat_seconds)
        self._reader = EventReader(redis, reads.contents)
        self._hints = EventHints(redis)
        self._standing: Batcher[TurnKey, Standing | None] = Batcher(
            lambda wanted: read_standings(reads, wanted), limit=STANDINGS_BATCH, line_of=lambda key: key.tenant_id
        )
        self._record: Batcher[TurnKey, TurnRecord | None] = Batcher(
            lambda wanted: read_turns(reads, wanted), limit=RECORDS_BATCH, line_of=lambda key: key.tenant_id
        )
        self._unreadable = Tally("stream.event_unreadable")
        self._stopping = False

    def stop(self) -> None:
        """Ends all watches before a shutdown. Their clients resume at another process."""
        self._stopping = True
        self._hints.tell_all()

    async def close(self) -> None:
        """Ends all watches and closes the subscription."""
        self.stop()
        await self._hints.close()

    @property
    def is_stopping(self) -> bool:
        """Whether all watches end, although their turns go on."""
        return self._stopping

    def listen_to_session(self, tenant_id: str, session_id: str) -> AbstractContextManager[Listener]:
        """Hears when an attempt at a turn of the session begins."""
        return self._hints.listen(name_session(self._prefix, tenant_id, session_id))

    async def find(self, tenant_id: str, turn_id: UUID) -> Standing | None:
        """The turn's current standing; None if the tenant has no such turn. Raises DatabaseUnavailableError.

        Batched, because after a restart a thousand clients reconnect at once.
        """
        return await self._standing(TurnKey(tenant_id, turn_id))

    async def until_ended(self, turn: Standing, seconds: float) -> TurnRecord | None:
        """The turn, if it ends within `seconds`; otherwise None.

        Returns at once when the turn ends, later if Redis is unreachable.
        """
        deadline = time.monotonic() + seconds
        looks = Looks(self._longest_pause)
        with self._hints.listen(self._key(turn), only_ends=True) as listener:
            while True:
                seen = await self._look(turn)
                if isinstance(seen, _Ended):
                    return seen.record
                left = deadline - time.monotonic()
                if left <= 0 or self._stopping:
                    return None
                await looks.pause(listener, at_most=left)

    async def has_seen_end(self, turn: Standing, last: EventId) -> bool:
        """Whether a client that has seen the event `last` of an ended turn has also seen the end."""
        if last.n > LAST_WORDS:
            return True
        before = EventId(last.fence, last.n - 1) if last.n else None
        events = await self._reader.read(Reading(self._key(turn), before))
        return any(event.id == last and event.saying.kind.ends for event in events or ())

    async def follow(self, turn: Standing, after: EventId | None) -> AsyncGenerator[SseEvent | None, None]:
        """Yields the turn's state, its events after the event `after` (None: from the start), and its one end.

        Yields None while there is no event, so that the caller can send heartbeats. Finishes without an end only after `stop`.
        """
        known = {"turn_id": str(turn.id), "session_id": turn.session_id, "status": turn.status, "attempt": turn.attempt}
        yield SseEvent(EventKind.METADATA, encode(known))
        following = _Following(turn, after)
        looks = Looks(self._longest_pause)
        with self._hints.listen(self._key(turn)) as listener:
            while not (following.ended or self._stopping):
                events = await self._reader.read(Reading(self._key(turn), following.after))
                for event in events or ():
                    if event.saying.kind is EventKind.UNREADABLE:
                        self._unreadable.note(turn_id=str(turn.id), event_id=str(event.id))
                    if not following.take(event):
                        continue
                    if not event.saying.kind.ends:
                        yield SseEvent(event.saying.kind, event.saying.data, event.id)
                        continue
                    while (seen := await self._look(turn)) is None and not self._stopping:
                        yield None
                        await looks.pause(listener)
                    for sse_event in following.conclude(event, seen) if seen is not None else ():
                        yield sse_event
                if events:
                    # Events still arrive, so the end may follow in the stream, even if the turn had ended before this watch.
                    following.expects_end = False
                    looks.start_over()
                if following.ended or (events and len(events) == PAGE):
                    continue
                # A worker writes the end to the stream before it sends the hint. If the stream lacks the end after the hint, no
                # worker ended the turn (a cancel of a waiting turn), and no more events will follow.
                following.expects_end |= not events and listener.take_end()
                heard = False
                if events or not following.expects_end:
                    yield None
                    heard = await looks.pause(listener)
                if heard and events is not None:
                    continue
                # No more events: the turn may have ended without an end in the stream.
                seen = await self._look(turn)
                if not isinstance(seen, _Ended):
                    following.expects_end = False
                elif following.expects_end or events is None:
                    for sse_event in following.close(seen):
                        yield sse_event
                else:
                    # The turn has just ended: the end may still follow in the stream.
                    following.expects_end = True
                    looks.start_over()
                    await looks.pause(listener)

    async def _look(self, turn: Standing) -> "Standing | _Ended | None":
        """None: the database is unavailable, or the turn is unknown or was redriven between the two reads."""
        try:
            key = TurnKey(turn.tenant_id, turn.id)
            standing = await self._standing(key)
            if standing is None or not standing.status.is_terminal:
                return standing
            record = await self._record(key)
        except DatabaseUnavailableError:
            return None
        # A redrive may happen between the two reads.
        return _Ended(standing.fence, record) if record is not None and record.status.is_terminal else None

    def _key(self, turn: Standing) -> str:
        return name_stream(self._prefix, turn.tenant_id, turn.session_id, turn.id)


class _Following:
    """The state of one client: which events it has received, and what to send next."""

    def __init__(self, turn: Standing, after: EventId | None) -> None:
        self.after = after
        self.expects_end = turn.status.is_terminal
        self.ended = False
        self._misses_some = False

    def take(self, event: TurnEvent) -> bool:
        """Whether to send the event. After a gap, only an event that restarts the text, or an end, is sent."""
        self._misses_some = not event.follows(self.after) if not self._misses_some else not event.begins_anew
        self.after = event.id
        if event.saying.kind is EventKind.UNREADABLE:
            return False
        return not self._misses_some or event.saying.kind.ends

    def conclude(self, event: TurnEvent, seen: "Standing | _Ended") -> Iterator[SseEvent]:
        """The events for a worker's end in the stream, from the row. A status event if the turn was redriven since."""
        if not isinstance(seen, _Ended) or seen.fence != event.id.fence:
            now = seen.record if isinstance(seen, _Ended) else seen
            yield SseEvent(EventKind.STATUS, encode({"status": now.status, "attempt": now.attempt}), event.id)
            return
        if self._misses_some or not _was_said(event.saying.data):
            # Without an id: a client that loses the connection before the end gets both events again.
            yield from _whole_text(seen.record, None)
        self.ended = True
        yield _end(seen.record, event.id)

    def close(self, seen: "_Ended") -> Iterator[SseEvent]:
        """The events for the end of a turn whose stream lacks the end."""
        whole = EventId(seen.fence, LAST_WORDS)
        if self.after != whole:
            yield from _whole_text(seen.record, whole)
        self.ended = True
        yield _end(seen.record, EventId(seen.fence, LAST_WORDS + 1))


@dataclass(frozen=True, slots=True)
class _Ended:
    """An ended turn and the fence of its last claim."""

    fence: int
    record: TurnRecord


def _was_said(data: str) -> bool:
    """Whether a worker's end says that all of the reply was emitted."""
    try:
        return bool(json.loads(data)["said"])
    except (ValueError, TypeError, LookupError, RecursionError):
        # No worker has written this end.
        return False


def _whole_text(record: TurnRecord, at: EventId | None) -> Iterator[SseEvent]:
    if record.status is TurnStatus.SUCCEEDED and isinstance(record.output, str):
        yield SseEvent(EventKind.RESET, encode({"text": record.output, "attempt": record.attempt}), at)


def _end(record: TurnRecord, at: EventId) -> SseEvent:
    data: dict[str, Any] = {"turn_id": str(record.id), "status": record.status}
    match record.status:
        case TurnStatus.SUCCEEDED:
            # A read of the turn says why there is none.
            data["output"] = None if isinstance(record.output, Unopened) else record.output
        case TurnStatus.FAILED:
            message = text_for_clients(record.error_class, record.error)
            data["error"] = {"class": record.error_class, "message": message}
            return SseEvent(EventKind.ERROR, encode(data), at)
        case _:
            data["reason"] = record.cancel_reason
    return SseEvent(EventKind.END, encode(data), at)
