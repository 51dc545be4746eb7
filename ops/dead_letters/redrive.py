"""Redrive: makes dead-lettered turns PENDING again (G28). The steps, independent of the command line.

A redrive revives the rows (by compare-and-set), sends the wake-ups, then sweeps the dead letters. It may be killed at any point
and run again: a revived turn without a sent wake-up has its `send_at`, and the next redrive sweeps remaining dead letters. Two
concurrent redrives revive each turn once.
"""

import asyncio
import getpass
import math
import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.sweep import sweep
from turnstile.ops.terminal.output import Progress
from turnstile.queries.failed_turns import FailedFilter
from turnstile.queries.turns import TurnRecord
from turnstile.statements.redrive import Revived, find_compensated, revive
from turnstile.statements.redrive_audit import RedriveRecord, begin
from turnstile.turn.identifiers import start_trace

BATCH = 50
"""Turns per statement. Small, because the statement locks the rows of their sessions."""


@dataclass(slots=True, kw_only=True)
class RedriveResult:
    """The counts of a redrive."""

    redrive_id: int | None = None
    revived: list[UUID] = field(default_factory=list)
    moved_on: int = 0
    """Turns that were no longer FAILED: another redrive was faster."""
    compensated: int = 0
    """Turns left alone because their compensation has not ended or is redriven with them, and compensations whose turn was
    revived. They stay dead letters."""
    sent: int = 0
    unsent: int = 0
    """Revived turns whose wake-up SQS did not accept: the relay sends it at `send_at`."""
    undeclared: Counter[str] = field(default_factory=Counter)
    """Turns left alone because the settings do not declare their queue; counts by queue."""
    letters: Counter[str] = field(default_factory=Counter)
    """Messages on the dead-letter queues, by kind."""
    swept: int = 0
    unswept: int = 0
    """Obsolete messages that SQS did not delete: the next redrive sweeps them."""
    unswept_queues: list[str] = field(default_factory=list)


class Redrive:
    """One redrive. `requested_by` is recorded."""

    def __init__(
        self, database: Database, queues: MessageQueues, settings: Settings, *, requested_by: str | None = None
    ) -> None:
        self._database = database
        self._queues = queues
        self._settings = settings
        self._requested_by = requested_by or describe_operator()

    async def run(
        self, wanted: FailedFilter, failed: Sequence[TurnRecord], *, rate: float | None = None
    ) -> RedriveResult:
        """Revives those that are still FAILED in the same generation, at most `rate` a second, sends their wake-ups, then sweeps.

        Raises DatabaseUnavailableError. Continues without SQS.
        """
        result = RedriveResult()
        declared = self._declared(failed, result)
        record = None
        if declared:
            record = await begin(
                self._database, requested_by=self._requested_by, queue=wanted.queue, wanted=_as_json(wanted)
            )
            result.redrive_id = record.id
            await self._put_back(declared, result, record, rate)
        await self.sweep(wanted, result)
        if record is not None:
            await record.finish()
        return result

    async def _put_back(
        self, turns: Sequence[TurnRecord], result: RedriveResult, record: RedriveRecord, rate: float | None
    ) -> None:
        # Compensations first: a turn is left alone while its compensation is open. If the turn were revived first, the
        # compensation could never run.
        turns = sorted(turns, key=lambda turn: turn.kind != "compensation")
        progress = Progress()
        started = time.monotonic()
        size = BATCH if rate is None else max(1, min(BATCH, math.ceil(rate)))
        for start in range(0, len(turns), size):
            if rate is not None:
                await asyncio.sleep(max(0.0, started + start / rate - time.monotonic()))
            batch = turns[start : start + size]
            revived = await self.revive(batch, result)
            if revived:
                await record.note([one.message.wake_up.turn_id for one in revived])
            await self.send(revived, result)
            progress.say(f"{start + len(batch)} of {len(turns)} turns put back")

    async def revive(self, batch: Sequence[TurnRecord], result: RedriveResult) -> list[Revived]:
        """Makes a batch PENDING, with new traces. Returns the turns that this redrive revived, not those of a concurrent one."""
        # Read before the revive: nothing should delay the record after its commit.
        compensated = await find_compensated(self._database, [turn.id for turn in batch])
        revived = await revive(
            self._database,
            [(turn.id, turn.generation) for turn in batch],
            [start_trace(secrets.randbits(192)) for _ in batch],
            expires_in_seconds=[self._settings.find_queue(turn.queue).expires_in_seconds for turn in batch],
            resend_seconds=self._settings.resend_seconds,
        )
        result.revived += [one.message.wake_up.turn_id for one in revived]
        compensated -= {one.message.wake_up.turn_id for one in revived}
        result.compensated += len(compensated)
        result.moved_on += len(batch) - len(revived) - len(compensated)
        return revived

    async def send(self, revived: Sequence[Revived], result: RedriveResult) -> None:
        """Sends the wake-ups. The relay sends those that SQS does not accept now."""
        for queue, group in groupby(sorted(revived, key=lambda one: one.queue), key=lambda one: one.queue):
            messages = [one.message for one in group]
            try:
                sent = len(await self._queues.send(queue, messages))
            except (QueueUnavailableError, UnknownQueueError):
                sent = 0
            result.sent += sent
            result.unsent += len(messages) - sent

    async def sweep(self, wanted: FailedFilter, result: RedriveResult) -> None:
        """Sweeps the dead-letter queue of `wanted.queue`, or those of all declared queues."""
        names = [wanted.queue] if wanted.queue is not None else list(self._settings.queues_by_name)
        for queue in names:
            try:
                swept = await sweep(self._database, self._queues, queue)
            except (QueueUnavailableError, UnknownQueueError):
                result.unswept_queues.append(queue)
                continue
            result.letters.update({kind.value: many for kind, many in swept.found.items()})
            result.swept += swept.swept
            result.unswept += swept.unswept

    def _declared(self, failed: Sequence[TurnRecord], result: RedriveResult) -> list[TurnRecord]:
        known = self._settings.queues_by_name
        result.undeclared.update(turn.queue for turn in failed if turn.queue not in known)
        return [turn for turn in failed if turn.queue in known]


def describe_operator() -> str:
    """The operating system user and the host: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id without an entry in /etc/passwd.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _as_json(wanted: FailedFilter) -> dict[str, Any]:
    fields = asdict(wanted) | {"turn_ids": [str(turn_id) for turn_id in wanted.turn_ids]}
    return {name: value for name, value in fields.items() if value}
