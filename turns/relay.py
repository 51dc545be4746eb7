"""The relay: sends what is due by `send_at`. Wake-ups whose message was lost, scheduled turns, retries, hand-backs, dead
letters, and turns whose lease ran out all go through here; there is no other timer (rule 3).

Any number of relays may run at once. A round takes due rows with SKIP LOCKED and stamps `send_at` ahead, so that a relay
that dies before it has sent loses nothing; after each call it puts the net in place, only where the stamp still stands:
a claim or a retry that came between is not overwritten. What the stamp no longer covers it leaves to whoever takes it
next. Whatever is sent twice costs a look, never more.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, Protocol
from uuid import UUID

import structlog

from turns.chosen_ids import forget_chosen_ids
from turns.database import Database
from turns.envelope import DeadLetter, OutgoingMessage
from turns.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turns.head import IS_FAILED
from turns.identifiers import TraceContext
from turns.joining import wake_joined
from turns.lost_turns import LostTurns
from turns.memory_items import prune_items
from turns.message import WakeUp
from turns.registry import seen_seconds
from turns.renewal_evidence import RenewalEvidence
from turns.settings import Settings
from turns.status import TurnStatus
from turns.submission import DWELL, forget_submissions

BATCH = 200
SENT_AT_ONCE = 10
"""As many as one SQS call takes."""
MAX_NET_SECONDS = 3600
FORGET_EVERY_SECONDS = 60.0
FULL_SCAN_EVERY_SECONDS = 60.0
EVER_SECONDS = 1e9

# A scheduled turn gets its place in the session when it falls due, so that it holds up nobody before (G14).
# Lock order: sessions, then turns. SKIP LOCKED in both, and below the limit: a session that somebody sits on, if only in a psql,
# would keep each round of each relay waiting here until its time-out, and with it all that is due to anybody; and many that are
# due in it would be all that a round sees. Its turns are placed by a later one.
PLACE_SCHEDULED: LiteralString = """
WITH due AS MATERIALIZED (
    SELECT t.id FROM turns t JOIN sessions s ON s.tenant_id = t.tenant_id AND s.session_id = t.session_id
     WHERE t.send_at <= now() AND t.seq IS NULL AND t.status = 'PENDING' ORDER BY t.send_at LIMIT %(limit)s
       FOR NO KEY UPDATE OF s SKIP LOCKED
), unplaced AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.session_id, t.execute_at FROM due JOIN turns t ON t.id = due.id
     WHERE t.seq IS NULL AND t.status = 'PENDING' ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
), place AS (
    UPDATE sessions s SET last_seq = s.last_seq + u.many, updated_at = clock_timestamp()
      FROM (SELECT tenant_id, session_id, count(*) AS many FROM unplaced GROUP BY 1, 2) u
     WHERE s.tenant_id = u.tenant_id AND s.session_id = u.session_id
    RETURNING s.tenant_id, s.session_id, s.last_seq - u.many AS before
)
UPDATE turns t SET seq = n.seq
  FROM (SELECT u.id, p.before + row_number() OVER (PARTITION BY tenant_id, session_id ORDER BY u.execute_at, u.id) AS seq
          FROM unplaced u JOIN place p USING (tenant_id, session_id)) n
 WHERE t.id = n.id AND t.seq IS NULL AND t.status = 'PENDING'
"""

# A RUNNING row whose worker came back and renewed is owed nothing any more. The scan starts at a floor and is full once a
# minute: under a long transaction elsewhere, dead index entries pile up at the old end and each scan would read them.
TAKE_DUE: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM turns WHERE send_at <= now() AND send_at > now() - make_interval(secs => %(reach)s)
       AND NOT (status = 'PENDING' AND seq IS NULL)
     ORDER BY send_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE turns t
   SET send_at = CASE WHEN t.status <> 'RUNNING' THEN clock_timestamp() + make_interval(secs => %(stamp)s)
                      WHEN t.lease_until < now() THEN clock_timestamp() + make_interval(
                               secs => least({MAX_NET_SECONDS}, %(resend)s * power(2, least(t.sends, 10)))) END,
       sends = t.sends + (t.status = 'RUNNING')::int
  FROM due WHERE t.id = due.id
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.status, t.attempt, t.fence, t.generation, t.error_class, t.error,
          t.trace_id, t.span_id, t.send_at
"""

# SKIP LOCKED: a cancel may hold one of these rows and want another. The row that is skipped is sent once more.
PUT_NET: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(stamps)s::timestamptz[]) x (id, stamp) JOIN turns t ON t.id = x.id
     WHERE t.send_at = x.stamp AND t.status = 'PENDING' ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns t
   SET sends = t.sends + 1,
       send_at = clock_timestamp() + make_interval(secs => least({MAX_NET_SECONDS},
                     greatest(%(net)s, 2 * {DWELL.format(queue="t.queue")}) * power(2, least(t.sends, 10))))
  FROM sent WHERE t.id = sent.id
"""

DEAD_LETTERED: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) x (id, generation) JOIN turns t ON t.id = x.id
     WHERE {IS_FAILED} AND t.generation = x.generation ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns t SET send_at = NULL, dead_lettered_at = clock_timestamp() FROM sent WHERE t.id = sent.id
"""

log = structlog.get_logger("turnstile.relay")


class Sender(Protocol):
    """What the relay needs of SQS; `message_queue.MessageQueues` is the real one."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Sends; returns those that SQS took. Raises QueueUnavailableError if it took none for being away."""
        ...

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """The same, to the queue's DLQ."""
        ...


@dataclass(frozen=True, slots=True)
class DueRow:
    """A row that is owed a message, stamped so that no other relay sends it in this moment."""

    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: TurnStatus
    attempt: int
    fence: int
    generation: int
    error_class: str | None
    error: str | None
    trace_id: str
    span_id: str
    send_at: datetime | None

    @property
    def message(self) -> OutgoingMessage:
        """Its wake-up."""
        trace = TraceContext(self.trace_id, self.span_id)
        return OutgoingMessage(WakeUp(self.tenant_id, self.session_id, self.id), trace.traceparent)

    @property
    def dead_letter(self) -> DeadLetter:
        """Its dead letter."""
        return DeadLetter(
            message=self.message,
            error_class=self.error_class or "unknown",
            attempts=self.attempt,
            fence=self.fence,
            generation=self.generation,
        )


class Relay:
    """The loop. `nudge` makes it look at once, for what its own process has just made due."""

    def __init__(
        self, database: Database, sender: Sender, settings: Settings, evidence: RenewalEvidence | None = None
    ) -> None:
        self._database = database
        self._lost = LostTurns(database, settings, evidence)
        self._sender = sender
        self._settings = settings
        self._nudged = asyncio.Event()
        self._full_scan_at = -math.inf
        self._forgot_at = -math.inf
        self._woke_joined_at = -math.inf

    def nudge(self) -> None:
        """Something has become due: don't wait for the tick."""
        self._nudged.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Rounds until `stopping`; an outage of Postgres ends a round, never the loop."""
        while not stopping.is_set():
            self._nudged.clear()
            try:
                full = await self.round()
            except DatabaseUnavailableError as error:
                log.warning("relay.round_failed", error=str(error))
                full = False
            if not full:
                await self._pause(stopping)

    async def _pause(self, stopping: asyncio.Event) -> None:
        waits = {asyncio.create_task(self._nudged.wait()), asyncio.create_task(stopping.wait())}
        try:
            await asyncio.wait(waits, timeout=self._settings.relay_tick_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def round(self) -> bool:
        """Places, wakes, takes, sends and forgets once. True if there may be more that is due already."""
        await self._place_and_wake()
        ours_until = time.monotonic() + self._settings.relay_stamp_seconds
        due = await self._take_due()
        await self._send_due(due, ours_until)
        if time.monotonic() - self._forgot_at > FORGET_EVERY_SECONDS:
            await self._forget()
        return len(due) == BATCH

    async def _place_and_wake(self) -> None:
        limit = {"limit": BATCH}
        await self._database.fetch(PLACE_SCHEDULED, limit)
        await self._lost.mark()
        if time.monotonic() - self._woke_joined_at > self._settings.takeover_resend_seconds:
            self._woke_joined_at = time.monotonic()
            await wake_joined(self._database)

    async def _take_due(self) -> list[DueRow]:
        full = time.monotonic() - self._full_scan_at > FULL_SCAN_EVERY_SECONDS
        parameters = {
            "limit": BATCH,
            "reach": EVER_SECONDS if full else 2 * FULL_SCAN_EVERY_SECONDS,
            "stamp": self._settings.relay_stamp_seconds,
            "resend": self._settings.takeover_resend_seconds,
        }
        rows = await self._database.fetch(TAKE_DUE, parameters)
        if full and len(rows) < BATCH:
            # Only now is the old end known to be empty; a backlog there is worked off at full speed.
            self._full_scan_at = time.monotonic()
        return [DueRow(**{**row, "status": TurnStatus(row["status"])}) for row in rows]

    async def _send_due(self, due: Sequence[DueRow], until: float) -> None:
        for queue in sorted({row.queue for row in due}):
            rows = [row for row in due if row.queue == queue]
            woken = [row for row in rows if row.status.is_open and row.send_at]
            failed = [row for row in rows if row.status is TurnStatus.FAILED]
            await self._send(queue, self._send_wake_ups, woken, until)
            await self._send(queue, self._send_dead_letters, failed, until)

    async def _send(
        self, queue: str, send: Callable[[str, Sequence[DueRow]], Awaitable[None]], rows: Sequence[DueRow], until: float
    ) -> None:
        """Each queue by itself: one that refuses must not hold up what another would take.

        Once the stamp is over, other relays take the rows. Two that go on regardless send them all twice, find each other's
        stamps instead of their own, and count none: on a queue that is served slowly the net would never grow, and the queue
        would fill with what nobody needs.
        """
        for start in range(0, len(rows), SENT_AT_ONCE):
            if time.monotonic() >= until:
                log.info("relay.out_of_time", queue=queue, turns=len(rows) - start)
                return
            some = rows[start : start + SENT_AT_ONCE]
            try:
                await send(queue, some)
            except (QueueUnavailableError, UnknownQueueError) as error:
                log.warning("relay.not_sent", queue=queue, turns=len(rows) - start, error=str(error))
                return

    async def _send_wake_ups(self, queue: str, rows: Sequence[DueRow]) -> None:
        sent = await self._sender.send(queue, [row.message for row in rows])
        ids = {message.wake_up.turn_id for message in sent}
        stamped = [row for row in rows if row.id in ids and row.status is TurnStatus.PENDING]
        parameters: dict[str, Any] = {
            "ids": [row.id for row in stamped],
            "stamps": [row.send_at for row in stamped],
            "net": self._settings.net_seconds,
            "seen": seen_seconds(self._settings),
        }
        await self._database.fetch(PUT_NET, parameters)
        log.debug("relay.sent", queue=queue, messages=len(sent))

    async def _send_dead_letters(self, queue: str, rows: Sequence[DueRow]) -> None:
        sent = await self._sender.send_dead_letters(queue, [row.dead_letter for row in rows])
        parameters: dict[str, Any] = {
            "ids": [letter.message.wake_up.turn_id for letter in sent],
            "generations": [letter.generation for letter in sent],
        }
        await self._database.fetch(DEAD_LETTERED, parameters)
        log.info("relay.dead_lettered", queue=queue, turns=[str(turn_id) for turn_id in parameters["ids"]])

    async def _forget(self) -> None:
        # Noted first: a delete that takes too long must not keep each round's sends waiting.
        self._forgot_at = time.monotonic()
        older_than_seconds = self._settings.idempotency_days * 86_400
        more = [
            await forget_submissions(self._database, older_than_seconds),
            await forget_chosen_ids(self._database, older_than_seconds),
            await prune_items(self._database),
        ]
        if any(more):
            # One statement a minute keeps up with few requests a second: what is left is the next round's.
            self._forgot_at = -math.inf
