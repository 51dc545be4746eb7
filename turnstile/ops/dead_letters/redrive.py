"""Redrive: makes dead-lettered turns PENDING again.

A redrive revives the rows (by compare-and-set), sends the wake-ups, then sweeps the dead letters. It may be killed at any point
and run again: a revived turn without a sent wake-up has its `send_at`, and the next redrive sweeps remaining dead letters. Two
concurrent redrives revive each turn once. It stops by itself when what it has put back fails again (`stop_rule`).
It prints nothing: its caller may watch it with a `RedriveObserver`.
"""

import asyncio
import math
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_messages import LetterKind
from turnstile.ops.dead_letters.failed_turns import BATCH, FailedFilter
from turnstile.ops.dead_letters.redriven_turns import RedrivenTurns
from turnstile.ops.dead_letters.stop_rule import Ends, GoOn, Stop, judge_ends
from turnstile.ops.dead_letters.sweep import sweep_queues
from turnstile.statements.redrive_audit import RedriveOutcome, RedriveRecord, begin
from turnstile.statements.revive import Revived, find_compensated, revive
from turnstile.turn.identifiers import start_trace
from turnstile.turn.turn_record import TurnRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a redrive proceeds."""

    rate: float | None = None
    """Turns a second at most."""
    canary: int = 0
    """This many turns go back first. The others follow if enough of these succeed; 0: none."""


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
    letters: Counter[LetterKind] = field(default_factory=Counter)
    """Messages on the dead-letter queues, by kind."""
    swept: int = 0
    unswept: int = 0
    """Obsolete messages that SQS did not delete: the next redrive sweeps them."""
    unswept_queues: list[str] = field(default_factory=list)
    stopped: str | None = None
    """Why the redrive stopped by itself; None if it did not."""
    not_tried: int = 0
    """Turns that were left FAILED because it stopped."""
    ended: Ends = field(default_factory=Ends)
    """How the turns put back had ended when it last looked. It does not wait for them at the end."""


class RedriveObserver:
    """What a redrive reports while it runs. This one ignores it."""

    def put_back(self, result: RedriveResult, turns: int) -> None:
        """A batch is done. `turns`: how many the redrive has."""

    def broken_off(self, result: RedriveResult, turns: int) -> None:
        """An error, or the operator, has ended the redrive before its end."""

    def canary_put_back(self, canary: Ends) -> None:
        """The redrive now waits for the canary to end."""

    def canary_looked_at(self, canary: Ends) -> None:
        """The canary is not decided yet. Comes about once a second."""

    def canary_decided(self, canary: Ends, verdict: GoOn | Stop, open_ids: Sequence[UUID]) -> None:
        """`open_ids`: the turns of the canary that have not ended, in the order in which they were put back."""


class Redrive:
    """One redrive. `requested_by` is recorded."""

    def __init__(
        self,
        database: Database,
        queues: MessageQueues,
        settings: Settings,
        *,
        requested_by: str,
        observer: RedriveObserver | None = None,
    ) -> None:
        self._database = database
        self._queues = queues
        self._settings = settings
        self._requested_by = requested_by
        self._observer = observer or RedriveObserver()

    async def run(self, wanted: FailedFilter, failed: Sequence[TurnRecord], pace: Pace | None = None) -> RedriveResult:
        """Revives those that are still FAILED in the same generation, at the given pace, sends their wake-ups, then sweeps.

        Raises DatabaseUnavailableError. Continues without SQS.
        """
        result = RedriveResult()
        declared = self._declared(failed, result)
        if not declared:
            await self.sweep(wanted, result)
            return result
        record = await begin(
            self._database,
            requested_by=self._requested_by,
            queue=wanted.queue,
            wanted=wanted.as_recorded(),
            matched=len(failed),
            tenant_id=wanted.tenant_id,
        )
        result.redrive_id = record.id
        try:
            await self._put_back(declared, result, record, pace or Pace())
            await self.sweep(wanted, result)
            outcome = RedriveOutcome.FINISHED if result.stopped is None else RedriveOutcome.STOPPED
            await record.finish(outcome, result.stopped, sent=result.sent, unsent=result.unsent)
        except BaseException as error:
            self._observer.broken_off(result, len(declared))
            await record.broke_off(error, sent=result.sent, unsent=result.unsent)
            raise
        return result

    async def _put_back(
        self, turns: Sequence[TurnRecord], result: RedriveResult, record: RedriveRecord, pace: Pace
    ) -> None:
        # Compensations first: a turn is left alone while its compensation is open. If the turn were revived first, the
        # compensation could never run.
        turns = in_session_order(sorted(turns, key=lambda turn: turn.kind != "compensation"))
        redriven = RedrivenTurns(self._database)
        free_at = time.monotonic()
        size = BATCH if pace.rate is None else max(1, min(BATCH, math.ceil(pace.rate)))
        start, canary = 0, pace.canary > 0
        while start < len(turns):
            await asyncio.sleep(max(0.0, free_at - time.monotonic()))
            # A turn that is left alone does not count as part of the canary.
            missing = pace.canary - len(result.revived)
            verdict = await self._judge(redriven, canary=canary and missing <= 0)
            if isinstance(verdict, Stop):
                result.stopped, result.not_tried = verdict.reason, len(turns) - start
                break
            canary = missing > 0
            batch = turns[start : start + (min(size, missing) if canary else size)]
            start += len(batch)
            free_at = time.monotonic() + (len(batch) / pace.rate if pace.rate is not None else 0.0)
            revived = await self.revive(batch, result)
            if revived:
                await record.note([one.message.wake_up.turn_id for one in revived])
            await self.send(revived, result)
            begun = {one.message.wake_up.turn_id for one in revived}
            redriven.add((turn.id, turn.generation + 1) for turn in batch if turn.id in begun)
            result.ended = redriven.ends
            self._observer.put_back(result, len(turns))
        result.ended = redriven.ends

    async def _judge(self, redriven: RedrivenTurns, *, canary: bool) -> GoOn | Stop:
        """Whether to put back further turns. `canary`: those so far are the canary."""
        if not canary:
            await redriven.look()
            return judge_ends(redriven.lately)
        self._observer.canary_put_back(redriven.ends)
        verdict = await redriven.wait_for_canary(self._observer.canary_looked_at)
        self._observer.canary_decided(redriven.ends, verdict, redriven.open_ids)
        return verdict

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
        names = self._settings.select_queues(wanted.queue)
        for queue, swept in (await sweep_queues(self._database, self._queues, names)).items():
            if swept is None:
                result.unswept_queues.append(queue)
                continue
            result.letters.update(swept.found)
            result.swept += swept.swept
            result.unswept += swept.unswept

    def _declared(self, failed: Sequence[TurnRecord], result: RedriveResult) -> list[TurnRecord]:
        known = self._settings.queues_by_name
        result.undeclared.update(turn.queue for turn in failed if turn.queue not in known)
        return [turn for turn in failed if turn.queue in known]


def in_session_order(turns: Sequence[TurnRecord]) -> list[TurnRecord]:
    """The same turns. The places of each session's turns stay, and its turns are in them by `seq`.

    Clients may choose ids, so a list by id may have a session's turns in another order.
    """
    sessions: defaultdict[tuple[str, str], list[TurnRecord]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: turn.seq or 0, reverse=True):
        sessions[turn.tenant_id, turn.session_id].append(turn)
    return [sessions[turn.tenant_id, turn.session_id].pop() for turn in turns]
