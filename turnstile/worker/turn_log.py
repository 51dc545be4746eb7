"""The log lines and metrics of a claim, of its end, and of session locks. A retry is an INFO line, and a turn that finally fails
is one ERROR line.

The operators' alarms count the ERROR lines, so they are written in one place and one per failure: `turn.failed`, or, on a queue
that halts, `turn.halted_session`: the session waits for an operator. There `turn.failed` is an INFO line.
"""

import time
from collections.abc import Mapping
from typing import Any

from turnstile.handlers.handler import COMPENSATION
from turnstile.process import logs
from turnstile.statements.claim import EndedAtClaim
from turnstile.telemetry.metrics import (
    ATTEMPT_RUNNING,
    LEASES_LOST,
    LOCK_ACQUISITIONS,
    LOCK_HOLD,
    LOCK_WAIT,
    SUPERSEDED_SETTLES,
    TAKEOVERS,
    TURN_WAITING,
    TURNS_ENDED,
)
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.session_lock import Guard, Release
from turnstile.worker.session_run import SessionRun


class TurnLog(AttemptObserver):
    """Binds the ids of a claimed turn to the lines of its task."""

    def __init__(self, *, halts: bool) -> None:
        """`halts`: on this queue a FAILED turn halts its session."""
        self._halts = halts
        self._has_seen_none = False

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        logs.bind(turn_id=str(turn.id), trace_id=turn.trace_id, attempt=turn.attempt)
        waited = {} if turn.waited_seconds is None else {"waited_seconds": round(turn.waited_seconds, 3)}
        log.info("turn.claimed", fence=turn.fence, seq=turn.seq, crashes=turn.crashes, **waited)
        if turn.waited_seconds is not None:
            TURN_WAITING.observe(turn.waited_seconds, turn.queue)

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        answers_none = attempt.status is TurnStatus.SUCCEEDED and attempt.settlement.reply is None
        if answers_none and attempt.turn.kind != COMPENSATION and not self._has_seen_none:
            # Once for a worker: a handler may mean it.
            self._has_seen_none = True
            log.warning("reply.none", hint="the handler returned None: is a `return` missing?")
        report_settled(attempt.turn, attempt.status, attempt.settlement, attempt.seconds, halts=self._halts)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        report_superseded(turn, at_settle=at_settle)


def report_settled(
    turn: ClaimedTurn, status: TurnStatus, settlement: Settlement, seconds: float, *, halts: bool
) -> None:
    """Logs the end of a claim. Call it while the turn's ids are bound to the log lines.

    `status`: the committed status; a cancel may have made it different from the settlement's. `halts`: on this queue a FAILED
    turn halts its session.
    """
    fields: dict[str, Any] = {"fence": turn.fence, "seconds": round(seconds, 3)}
    if status is TurnStatus.FAILED:
        _report_failure(settlement.error_class, turn.tenant_id, settlement.dead_letter, halts, fields)
    elif status is TurnStatus.PENDING:
        wait = round(settlement.after_seconds, 3)
        log.info(f"turn.{settlement.outcome}", error_class=settlement.error_class, after_seconds=wait, **fields)
    else:
        log.info(f"turn.{status.lower()}", **fields)
    canceled = status is TurnStatus.CANCELED
    ATTEMPT_RUNNING.observe(seconds, turn.queue, AttemptOutcome.CANCELED if canceled else settlement.outcome)
    _count_ended(turn.queue, status, settlement.error_class)


def report_superseded(turn: ClaimedTurn, *, at_settle: bool) -> None:
    """Logs a claim that another one has replaced. `at_settle`: its settle was refused; otherwise its handler was
    stopped before.

    Not counted where the heartbeat finds it, with every beat until the handler has stopped.
    """
    log.info("turn.superseded")
    (SUPERSEDED_SETTLES if at_settle else LEASES_LOST).add(1, turn.queue)


def report_takeover(turn: ClaimedTurn) -> None:
    """Logs the claim of a turn that another worker has lost; logs nothing for other turns."""
    if turn.lost_worker is not None:
        # The bound ids are those of the message, which may name another turn of the session.
        log.warning(
            "turn.taken_over",
            lost_worker=turn.lost_worker,
            crashes=turn.crashes,
            attempt=turn.attempt,
            turn_id=str(turn.id),
            session_id=turn.session_id,
            trace_id=turn.trace_id,
        )
        TAKEOVERS.add(1, turn.queue)


def report_ended(ended: EndedAtClaim, queue: str, *, halts: bool) -> None:
    """Logs a turn that its claim has ended: it has crashed too many workers, or it was cancelled."""
    ids: dict[str, Any] = {
        "turn_id": str(ended.turn_id),
        "session_id": ended.session_id,
        "trace_id": ended.trace_id,
    }
    if ended.status is TurnStatus.FAILED:
        _report_failure(ended.error_class, ended.tenant_id, True, halts, ids)
    else:
        log.info(f"turn.{ended.status.lower()}", **ids)
    _count_ended(queue, ended.status, ended.error_class)


def _count_ended(queue: str, status: TurnStatus, error_class: str | None) -> None:
    if status.is_terminal:
        TURNS_ENDED.add(1, queue, status, (error_class or "") if status is TurnStatus.FAILED else "")


def _report_failure(
    error_class: str | None, tenant_id: str, dead_letter: bool, halts: bool, fields: Mapping[str, Any]
) -> None:
    failed = log.info if halts else log.error
    failed("turn.failed", error_class=error_class, dead_letter=dead_letter and not halts, **fields)
    if halts:
        ways_on = "turnstile retry, turnstile skip"
        log.error("turn.halted_session", error_class=error_class, tenant_id=tenant_id, ways_on=ways_on, **fields)


def report_lock(queue: str, key: str, lease_seconds: float, guard: Guard, seconds: float) -> None:
    """`seconds`: how long the attempt took. The line's `worker_id` is the owner, and the lease the key's time to live."""
    log.info("session.lock", key=key, ttl_seconds=lease_seconds, result=guard.result, seconds=round(seconds, 4))
    if guard is Guard.FOREIGN:
        hint = "no worker has set this lock: find out who writes to Redis, and delete the key"
        log.warning("session.lock_foreign", key=key, hint=hint)
    LOCK_ACQUISITIONS.add(1, queue, guard.result)
    # Of the others, some did not call Redis: in a drain they would hide that it is slow.
    if guard is Guard.LOCKED:
        LOCK_WAIT.observe(seconds, queue)


def report_unlock(queue: str, released: Release, run: SessionRun) -> None:
    """Logs a release by a run that held the lock and may still hold it."""
    held_seconds = time.monotonic() - run.started_at
    log.info("session.unlock", result=released.value, held_seconds=round(held_seconds, 4), turns=run.turns)
    if released is not Release.LOOK_AGAIN:
        LOCK_HOLD.observe(held_seconds, queue)
