"""Redrive: dead-lettered turns go back to work (G28). The steps, without any command line around them.

Revive (the row decides, by compare-and-set), then send, then sweep the dead letters. A cut anywhere is repaired by what
stands in the rows: a turn that was revived and not sent has its `send_at`, a dead letter that was not swept is swept by
the next redrive. So it can be killed at any point and run again, and two at once put each turn back once.
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
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.sweep import sweep
from turnstile.ops.terminal.output import Report
from turnstile.queries.failed_turns import FailedFilter, list_failed
from turnstile.statements.redrive import Revived, find_compensated, revive
from turnstile.statements.redrive_audit import RedriveRecord, begin
from turnstile.turn.identifiers import start_trace

PAGE = 500
BATCH = 50
"""Turns per statement: their sessions' rows are locked while it runs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A FAILED turn as it was found. It is revived only if it is still FAILED in this generation."""

    id: UUID
    generation: int
    queue: str
    kind: str = "turn"


@dataclass(slots=True, kw_only=True)
class Survey:
    """What a redrive would put back to work."""

    candidates: list[Candidate] = field(default_factory=list)
    by_error_class: Counter[str] = field(default_factory=Counter)
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(slots=True, kw_only=True)
class RedriveResult:
    """What a redrive did."""

    redrive_id: int | None = None
    revived: list[UUID] = field(default_factory=list)
    moved_on: int = 0
    """Not FAILED any more when their turn came: another redrive was quicker."""
    compensated: int = 0
    """Left alone: their compensation has not ended yet, or is redriven with them; or they are compensations, and their turn has
    gone back to work. They stay dead letters."""
    sent: int = 0
    unsent: int = 0
    """Revived, but SQS did not take the wake-up: the relay sends it by `send_at`."""
    undeclared: Counter[str] = field(default_factory=Counter)
    """Left alone, by queue: these settings do not declare it, or SQS does not have it."""
    letters: Counter[str] = field(default_factory=Counter)
    """What was found on the dead-letter queues, by verdict."""
    swept: int = 0
    unswept: int = 0
    """Litter that SQS did not delete, and that was given back: the next redrive sweeps it."""
    unswept_queues: list[str] = field(default_factory=list)


async def find_candidates(database: Database, wanted: FailedFilter, *, limit: int | None = None) -> Survey:
    """Finds what matches, oldest first, at most `limit`; changes nothing."""
    found = Survey()
    after: UUID | None = None
    while (room := PAGE if limit is None else min(PAGE, limit - len(found.candidates))) > 0:
        page = await list_failed(database, wanted, limit=room, after=after)
        for turn in page:
            found.candidates.append(Candidate(turn.id, turn.generation, turn.queue, turn.kind))
            found.by_error_class[turn.error_class or "unknown"] += 1
            found.oldest = min(found.oldest or turn.finished_at, turn.finished_at)
            found.newest = max(found.newest or turn.finished_at, turn.finished_at)
        if len(page) < room:
            break
        after = page[-1].id
    return found


class Redrive:
    """One redrive. `requested_by` goes on record."""

    def __init__(
        self, database: Database, queues: MessageQueues, settings: Settings, *, requested_by: str | None = None
    ) -> None:
        self._database = database
        self._queues = queues
        self._settings = settings
        self._requested_by = requested_by or whoever_runs_this()

    async def run(
        self,
        wanted: FailedFilter,
        survey: Survey,
        *,
        rate: float | None = None,
        report: Report = lambda done, total: None,
        report_sweep: Report = lambda done, total: None,
    ) -> RedriveResult:
        """Revives and sends what the survey found, at most `rate` turns a second, then sweeps.

        Raises DatabaseUnavailableError, and goes on without SQS.
        """
        result = RedriveResult()
        candidates = self._declared(survey.candidates, result)
        record = None
        if candidates:
            record = await begin(
                self._database, requested_by=self._requested_by, queue=wanted.queue, wanted=_as_json(wanted)
            )
            result.redrive_id = record.id
            await self._put_back(candidates, result, record, rate, report)
        await self.sweep(wanted, result, report=report_sweep)
        if record is not None:
            await record.finish()
        return result

    async def _put_back(
        self,
        candidates: Sequence[Candidate],
        result: RedriveResult,
        record: RedriveRecord,
        rate: float | None,
        report: Report,
    ) -> None:
        # In whichever portions: a turn waits for its compensation, and once it had gone first there would be none any more.
        candidates = sorted(candidates, key=lambda candidate: candidate.kind != "compensation")
        started = time.monotonic()
        size = BATCH if rate is None else max(1, min(BATCH, math.ceil(rate)))
        for start in range(0, len(candidates), size):
            if rate is not None:
                await asyncio.sleep(max(0.0, started + start / rate - time.monotonic()))
            batch = candidates[start : start + size]
            revived = await self.revive(batch, result)
            if revived:
                await record.note([one.message.wake_up.turn_id for one in revived])
            await self.send(revived, result)
            report(start + len(batch), len(candidates))

    async def revive(self, batch: Sequence[Candidate], result: RedriveResult) -> list[Revived]:
        """Puts a batch back to PENDING, under new traces; returns those that this redrive won."""
        # Asked first: between the commit of a revive and its record nothing more should come.
        compensated = await find_compensated(self._database, [candidate.id for candidate in batch])
        revived = await revive(
            self._database,
            [(candidate.id, candidate.generation) for candidate in batch],
            [start_trace(secrets.randbits(192)) for _ in batch],
            expires_in_seconds=[self._settings.find_queue(candidate.queue).expires_in_seconds for candidate in batch],
            net_seconds=self._settings.net_seconds,
        )
        result.revived += [one.message.wake_up.turn_id for one in revived]
        compensated -= {one.message.wake_up.turn_id for one in revived}
        result.compensated += len(compensated)
        result.moved_on += len(batch) - len(revived) - len(compensated)
        return revived

    async def send(self, revived: Sequence[Revived], result: RedriveResult) -> None:
        """Sends their wake-ups. What SQS does not take now, the relay sends."""
        for queue, group in groupby(sorted(revived, key=lambda one: one.queue), key=lambda one: one.queue):
            messages = [one.message for one in group]
            try:
                sent = len(await self._queues.send(queue, messages))
            except (QueueUnavailableError, UnknownQueueError):
                sent = 0
            result.sent += sent
            result.unsent += len(messages) - sent

    async def sweep(
        self, wanted: FailedFilter, result: RedriveResult, *, report: Report = lambda done, total: None
    ) -> None:
        """Sweeps the dead-letter queues: that of `wanted.queue`, or all that are declared."""
        names = [wanted.queue] if wanted.queue is not None else list(self._settings.queues_by_name)
        for queue in names:
            try:
                swept = await sweep(self._database, self._queues, queue, report=report)
            except (QueueUnavailableError, UnknownQueueError):
                result.unswept_queues.append(queue)
                continue
            result.letters.update({verdict.value: many for verdict, many in swept.found.items()})
            result.swept += swept.swept
            result.unswept += swept.unswept

    def _declared(self, candidates: Sequence[Candidate], result: RedriveResult) -> list[Candidate]:
        known = self._settings.queues_by_name
        result.undeclared.update(candidate.queue for candidate in candidates if candidate.queue not in known)
        return [candidate for candidate in candidates if candidate.queue in known]


def whoever_runs_this() -> str:
    """The person at the keyboard, or the task's account: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that no passwd file knows.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _as_json(wanted: FailedFilter) -> dict[str, Any]:
    fields = asdict(wanted) | {"turn_ids": [str(turn_id) for turn_id in wanted.turn_ids]}
    return {name: value for name, value in fields.items() if value}
