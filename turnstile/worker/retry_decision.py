"""Decide: turns outcome, attempt and policy into a settlement. Pure: the time left and the jitter are arguments."""

from dataclasses import dataclass
from typing import assert_never

from turnstile.backends.backoff import full_jitter
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.error_classes import EXPIRED, SHUTDOWN_LOOP, TIMEOUT
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.outcome import Failed, Joining, Outcome, Snoozed, Stopped, StopReason, Succeeded, TimedOut

BROKEN_HANDLER_SECONDS = 60.0
"""How long a turn waits that a worker with a broken handler hands back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    max_attempts: int
    base_seconds: float
    cap_seconds: float


def decide(
    outcome: Outcome, turn: ClaimedTurn, policy: Policy, *, seconds_left: float, jitter: float
) -> Settlement | None:
    """The turn's settlement; None if another claim has the turn.

    `seconds_left`: until the turn expires; no retry and no snooze goes beyond that. `jitter`: a random number from 0 to 1.
    """
    match outcome:
        case Succeeded(reply, text):
            answered = AttemptOutcome.SUCCEEDED
            return Settlement(status=TurnStatus.SUCCEEDED, outcome=answered, reply=reply, reply_text=text)
        case TimedOut(seconds):
            failed = Failed(TIMEOUT, f"took longer than {seconds:g} s", may_heal=True)
            return _after_failure(failed, turn, policy, seconds_left, jitter)
        case Failed():
            return _after_failure(outcome, turn, policy, seconds_left, jitter)
        case Snoozed(after=after, reason=reason):
            if after > seconds_left:
                return _give_up(EXPIRED, f"asked to wait {after:g} s, but expires before", dead_letter=True)
            return Settlement(
                status=TurnStatus.PENDING,
                outcome=AttemptOutcome.SNOOZED,
                after_seconds=after,
                refund=True,
                error=reason,
            )
        case Joining(children, policy_of_join):
            if seconds_left <= 0:
                return _give_up(EXPIRED, "its children had not ended when it expired", dead_letter=True)
            # Due when it expires; only the end of its children makes it due earlier.
            return Settlement(
                status=TurnStatus.PENDING,
                outcome=AttemptOutcome.JOINED,
                after_seconds=seconds_left,
                refund=True,
                joining=children,
                join_policy=policy_of_join,
            )
        case Stopped(reason):
            return _after_stop(reason, turn, seconds_left)
        case _:
            assert_never(outcome)


def _after_stop(reason: StopReason, turn: ClaimedTurn, seconds_left: float) -> Settlement | None:
    match reason:
        case StopReason.CANCELED:
            return Settlement(status=TurnStatus.CANCELED, outcome=AttemptOutcome.CANCELED)
        case StopReason.SHUTDOWN if turn.hand_backs >= MAX_HAND_BACKS - 1:
            # Perhaps its handler stops its workers: without this it would begin for ever.
            error = f"{MAX_HAND_BACKS} shutdowns in a row have stopped it"
            return _give_up(SHUTDOWN_LOOP, error, dead_letter=True)
        case StopReason.SHUTDOWN | StopReason.NO_SLOT:
            # The attempt is refunded: the cause is the worker, not the turn. A hand-back with a reason does not count to a loop.
            why = "no slot became free" if reason is StopReason.NO_SLOT else None
            return Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RELEASED, refund=True, error=why)
        case StopReason.BROKEN_HANDLER:
            # Not due at once: another worker with the same code would meet the same error.
            return Settlement(
                status=TurnStatus.PENDING,
                outcome=AttemptOutcome.RELEASED,
                after_seconds=max(0.0, min(BROKEN_HANDLER_SECONDS, seconds_left)),
                refund=True,
                error="the handler fails in each of this worker's first turns",
            )
        case StopReason.SUPERSEDED:
            return None
        case _:
            assert_never(reason)


def _after_failure(failed: Failed, turn: ClaimedTurn, policy: Policy, seconds_left: float, jitter: float) -> Settlement:
    failures = turn.failures + 1
    if not failed.may_heal or failures >= policy.max_attempts:
        return _give_up(failed.error_class, failed.error, failed.traceback, dead_letter=failed.dead_letter)
    wait = failed.after
    if wait is None:
        wait = full_jitter(failures, jitter, policy.base_seconds, policy.cap_seconds)
    if wait > seconds_left:
        error = f"{failed.error} (expired before its next attempt)"
        return _give_up(failed.error_class, error, failed.traceback, dead_letter=True)
    return Settlement(
        status=TurnStatus.PENDING,
        outcome=AttemptOutcome.RETRIED,
        after_seconds=max(0.0, wait),
        fault=True,
        error_class=failed.error_class,
        error=failed.error,
        traceback=failed.traceback,
    )


def _give_up(error_class: str, error: str, traceback: str | None = None, *, dead_letter: bool) -> Settlement:
    return Settlement(
        status=TurnStatus.FAILED,
        outcome=AttemptOutcome.FAILED,
        fault=True,
        error_class=error_class,
        error=error,
        traceback=traceback,
        dead_letter=dead_letter,
    )
