"""Sends the rows that a relay has taken: ten a call, with several calls in parallel. Then it writes the resend deadline or notes
the dead letter, only if the relay's stamp still stands. Rows that could not be sent are given back to other relays.

When the stamp has expired, other relays take the rows. If two relays went on regardless, both would send all the rows, find each
other's stamps instead of their own, and count no send. On a slow queue the resend deadline would then never grow, and the queue
would fill with useless messages. So no call begins after the stamp, and the resend deadlines are written right after their call.
Deadlines that are ready at the same time share a statement.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol
from uuid import UUID

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import BATCH
from turnstile.relay.fault_isolation import LeftOut, alone, step_around
from turnstile.relay.queue_selection import Line
from turnstile.statements.owed_messages import DEAD_LETTERED, GIVE_BACK, SET_RESEND_DEADLINE, DueRow
from turnstile.telemetry.metrics import RELAY_LAG, RELAY_SENT
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.status import TurnStatus

SIDE_BY_SIDE = 6
"""Parallel calls of one queue. Fewer than the sixteen of a process (`backends.sqs.sqs_client.COMMANDS`): a queue that hangs
leaves room for others."""
CALLS_PER_STATEMENT = 50
"""Calls whose resend deadlines share one statement, at most."""


class Sender(Protocol):
    """The SQS operations that the relay needs; `message_queue.MessageQueues` implements them."""

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Returns the messages that SQS accepted. Raises QueueUnavailableError if it accepted none because it is unavailable."""
        ...

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """The same, to the queue's DLQ."""
        ...


@dataclass(slots=True)
class Load:
    """Rows taken of one line, and the result so far. `until`: when their stamp expires, in monotonic seconds."""

    line: Line
    until: float
    calls: deque[list[DueRow]]
    """The rows of each call that has not begun."""
    unsent: list[DueRow] = field(default_factory=list)
    sent: bool = False
    """Whether a call succeeded."""
    refusal: Exception | None = None
    """Why the queue refused a call. No call begins after it."""

    @classmethod
    def of(cls, line: Line, rows: Sequence[DueRow], until: float) -> "Load":
        """Leaves out rows that need no message after all."""
        owed = [row for row in rows if row.send_at and (row.status.is_open or row.status is TurnStatus.FAILED)]
        return cls(line, until, deque(owed[start : start + BATCH] for start in range(0, len(owed), BATCH)))


class RelaySends:
    """Sends loads, any number in parallel."""

    def __init__(self, database: Database, sender: Sender, settings: Settings, left_out: LeftOut) -> None:
        self._database = database
        self._sender = sender
        self._settings = settings
        self._left_out = left_out
        self._deadlines: Batcher[list[DueRow], None] = Batcher(self._set_resend_deadlines, limit=CALLS_PER_STATEMENT)

    async def send(self, load: Load) -> None:
        """Sends as much as the queue accepts before the stamp expires. A failed call does not stop the others, unless the queue
        refuses it."""
        await asyncio.gather(*(self._send_calls(load) for _ in range(SIDE_BY_SIDE)))
        unsent = [*load.unsent, *chain.from_iterable(load.calls)]
        if load.refusal is not None:
            queue, dead = load.line
            log.warning("relay.not_sent", queue=queue, dead=dead, turns=len(unsent), error=str(load.refusal))
            await alone("give_back", self._give_back(unsent))
        elif unsent:
            log.info("relay.out_of_time", queue=load.line.queue, turns=len(unsent))

    async def _send_calls(self, load: Load) -> None:
        while load.calls and load.refusal is None and time.monotonic() < load.until:
            rows = load.calls.popleft()
            try:
                await alone(
                    "send", self._send_letters(load, rows) if load.line.dead else self._send_wake_ups(load, rows)
                )
            except (QueueUnavailableError, UnknownQueueError) as error:
                load.refusal = error
                load.unsent += rows

    async def _send_wake_ups(self, load: Load, rows: Sequence[DueRow]) -> None:
        sent = await self._sender.send(load.line.queue, [row.message for row in rows])
        load.sent = True
        ids = {message.wake_up.turn_id for message in sent}
        await self._deadlines([row for row in rows if row.id in ids and row.status is TurnStatus.PENDING])
        log.debug("relay.sent", queue=load.line.queue, messages=len(sent))
        self._count(load, [row for row in rows if row.id in ids], "wake_up")

    async def _set_resend_deadlines(self, calls: Sequence[list[DueRow]]) -> list[None]:
        rows = {row.id: row for row in chain.from_iterable(calls)}

        async def put(ids: Sequence[UUID]) -> list[Any]:
            parameters = {
                "ids": list(ids),
                "stamps": [rows[one].send_at for one in ids],
                "resend_after": self._settings.resend_seconds,
            }
            return await self._database.fetch(SET_RESEND_DEADLINE, parameters)

        await step_around("set_resend_deadline", self._left_out, {row.id: row.trace_id for row in rows.values()}, put)
        return [None] * len(calls)

    async def _send_letters(self, load: Load, rows: Sequence[DueRow]) -> None:
        sent = await self._sender.send_dead_letters(load.line.queue, [row.dead_letter for row in rows])
        load.sent = True
        generations = {letter.message.wake_up.turn_id: letter.generation for letter in sent}
        traces = {row.id: row.trace_id for row in rows if row.id in generations}

        async def note(ids: Sequence[UUID]) -> list[Any]:
            parameters = {"ids": list(ids), "generations": [generations[one] for one in ids]}
            return await self._database.fetch(DEAD_LETTERED, parameters)

        await step_around("dead_letter", self._left_out, traces, note)
        ids = {"turn_ids": [str(turn_id) for turn_id in traces], "trace_ids": list(traces.values())}
        log.info("relay.dead_lettered", queue=load.line.queue, **ids)
        self._count(load, [row for row in rows if row.id in generations], "dead_letter")

    def _count(self, load: Load, sent: Sequence[DueRow], kind: str) -> None:
        RELAY_SENT.add(len(sent), load.line.queue, kind)
        # By the database's clock until the stamp, and by this process's since then.
        stamp_seconds = self._settings.relay_stamp_seconds
        since_stamp = time.monotonic() - (load.until - stamp_seconds)
        for row in sent:
            # The stamp of a lost turn has another length.
            if row.send_at is not None and row.due_at is not None and row.status is not TurnStatus.RUNNING:
                waited = (row.send_at - row.due_at).total_seconds() - stamp_seconds
                RELAY_LAG.observe(max(0.0, waited + since_stamp), load.line.queue)

    async def _give_back(self, rows: Sequence[DueRow]) -> None:
        parameters: dict[str, Any] = {
            "ids": [row.id for row in rows],
            "stamps": [row.send_at for row in rows],
            "due_ats": [row.due_at for row in rows],
        }
        await self._database.fetch(GIVE_BACK, parameters)
