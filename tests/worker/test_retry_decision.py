"""The decision: a function of outcome, attempt, policy, time left and jitter. Every outcome has a settlement."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnstile.backends.backoff import ceiling
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY
from turnstile.turn.error_classes import EXPIRED, SHUTDOWN_LOOP, TIMEOUT
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TRANSITIONS, TurnStatus
from turnstile.worker.attempt.outcome import Failed, Joining, Outcome, Snoozed, Stopped, StopReason, Succeeded, TimedOut
from turnstile.worker.retry_decision import BROKEN_HANDLER_SECONDS, Policy, decide

TURN = ClaimedTurn(
    claim_id=UUID(int=1), id=UUID(int=2), tenant_id="t", session_id="s", seq=1, queue="turns", attempt=1, failures=0,
    crashes=0, max_attempts=None, generation=1, fence=1, timeout_seconds=None, expires_in_seconds=900.0,
    queue_latency_seconds=0.0, metadata={}, trace_id="1" * 32, span_id="1" * 16, created_at=datetime(2026, 1, 1, tzinfo=UTC),
    inputs=("hi",), messages=(), history_version=EMPTY_HISTORY,
)  # fmt: skip
POLICY = Policy(max_attempts=3, base_seconds=1.0, cap_seconds=8.0)
FREE = (AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED, AttemptOutcome.JOINED)
BOOM = Failed("Boom", "boom", may_heal=True)
JOINING = Joining((UUID(int=3), UUID(int=4)), JoinPolicy.ANY)

waits = st.none() | st.floats(-10, 10_000)
failures = st.builds(Failed, st.text(), st.text(), st.booleans(), waits, st.booleans())
outcomes = st.one_of(
    st.builds(Succeeded, st.none() | st.text() | st.integers()),
    failures,
    st.builds(Snoozed, st.floats(0, 10_000)),
    st.builds(Joining, st.just((UUID(int=3),)), st.sampled_from(JoinPolicy)),
    st.builds(TimedOut, st.floats(0.1, 1000)),
    st.builds(Stopped, st.sampled_from(StopReason)),
)
turns = st.builds(
    lambda attempt, failed: replace(TURN, attempt=attempt, failures=failed), st.integers(1, 99), st.integers(0, 99)
)
policies = st.builds(
    lambda attempts, base, cap: Policy(max_attempts=attempts, base_seconds=base, cap_seconds=cap),
    st.integers(1, 100), st.floats(0.01, 10), st.floats(0.01, 1000),
)  # fmt: skip
lefts = st.floats(-1000, 10_000)
jitters = st.floats(0, 1)


def settled(
    outcome: Outcome, turn: ClaimedTurn = TURN, policy: Policy = POLICY, left: float = 900.0, jitter: float = 0.5
) -> Settlement:
    settlement = decide(outcome, turn, policy, seconds_left=left, jitter=jitter)
    assert settlement is not None
    return settlement


@pytest.mark.parametrize(
    ("outcome", "failed_before", "left", "expected"),
    [
        (Succeeded("hi"), 0, 900, ("SUCCEEDED", "succeeded", 0.0)),
        (Succeeded("hi"), 9, -5, ("SUCCEEDED", "succeeded", 0.0)),
        (BOOM, 0, 900, ("PENDING", "retried", 0.5)),
        (BOOM, 1, 900, ("PENDING", "retried", 1.0)),
        (BOOM, 2, 900, ("FAILED", "failed", 0.0)),
        (BOOM, 0, 0.4, ("FAILED", "failed", 0.0)),
        (replace(BOOM, after=7.0), 0, 900, ("PENDING", "retried", 7.0)),
        (replace(BOOM, after=-7.0), 0, 900, ("PENDING", "retried", 0.0)),
        (replace(BOOM, after=float("inf")), 0, 900, ("FAILED", "failed", 0.0)),
        (replace(BOOM, may_heal=False), 0, 900, ("FAILED", "failed", 0.0)),
        (TimedOut(3.0), 0, 900, ("PENDING", "retried", 0.5)),
        (TimedOut(3.0), 2, 900, ("FAILED", "failed", 0.0)),
        (Snoozed(60.0), 9, 900, ("PENDING", "snoozed", 60.0)),
        (Snoozed(60.0), 0, 59, ("FAILED", "failed", 0.0)),
        (JOINING, 9, 900, ("PENDING", "joined", 900.0)),
        (JOINING, 0, 0, ("FAILED", "failed", 0.0)),
        (Stopped(StopReason.CANCELED), 0, 900, ("CANCELED", "canceled", 0.0)),
        (Stopped(StopReason.SHUTDOWN), 9, -5, ("PENDING", "released", 0.0)),
        (Stopped(StopReason.NO_SLOT), 9, -5, ("PENDING", "released", 0.0)),
        (Stopped(StopReason.BROKEN_HANDLER), 9, 900, ("PENDING", "released", BROKEN_HANDLER_SECONDS)),
        (Stopped(StopReason.BROKEN_HANDLER), 9, 7, ("PENDING", "released", 7.0)),
        (Stopped(StopReason.BROKEN_HANDLER), 9, -5, ("PENDING", "released", 0.0)),
    ],
)
def test_an_outcome_has_its_settlement(
    outcome: Outcome, failed_before: int, left: float, expected: tuple[str, str, float]
) -> None:
    settlement = settled(outcome, replace(TURN, failures=failed_before), left=left)

    assert (settlement.status, settlement.outcome, settlement.after_seconds) == expected
    assert settlement.reply == ("hi" if settlement.status is TurnStatus.SUCCEEDED else None)
    assert settlement.refund is (settlement.outcome in FREE)
    assert settlement.fault is (settlement.outcome in (AttemptOutcome.FAILED, AttemptOutcome.RETRIED))


def test_a_turn_that_shutdowns_have_stopped_too_often_in_a_row_ends() -> None:
    stopped = Stopped(StopReason.SHUTDOWN)

    last_free = settled(stopped, replace(TURN, hand_backs=MAX_HAND_BACKS - 2))
    ended = settled(stopped, replace(TURN, hand_backs=MAX_HAND_BACKS - 1))

    assert last_free.outcome is AttemptOutcome.RELEASED
    assert (ended.status, ended.error_class, ended.dead_letter) == (TurnStatus.FAILED, SHUTDOWN_LOOP, True)


def test_a_turn_that_found_no_slot_does_not_end_by_it() -> None:
    handed_back = settled(Stopped(StopReason.NO_SLOT), replace(TURN, hand_backs=MAX_HAND_BACKS - 1))

    assert (handed_back.outcome, handed_back.error) == (AttemptOutcome.RELEASED, "no slot became free")


def test_a_superseded_attempt_has_no_settlement() -> None:
    assert decide(Stopped(StopReason.SUPERSEDED), TURN, POLICY, seconds_left=900, jitter=0.5) is None


def test_a_join_waits_for_its_children_until_the_turn_expires() -> None:
    settlement = settled(JOINING, left=77.0)

    assert (settlement.joining, settlement.join_policy) == (JOINING.children, "any")
    assert settlement.after_seconds == 77.0


def test_a_timeout_names_its_limit() -> None:
    settlement = settled(TimedOut(2.5))

    assert (settlement.error_class, settlement.error) == (TIMEOUT, "took longer than 2.5 s")


@pytest.mark.parametrize("outcome", [Snoozed(60.0), JOINING], ids=["snooze", "join"])
def test_a_wait_past_the_expiry_fails_as_expired_with_a_dead_letter(outcome: Outcome) -> None:
    settlement = settled(outcome, left=0.0)

    assert (settlement.error_class, settlement.dead_letter) == (EXPIRED, True)


@pytest.mark.parametrize("dead_letter", [True, False])
def test_a_handler_decides_whether_its_reject_is_dead_lettered(dead_letter: bool) -> None:
    assert settled(Failed("Reject", "no", may_heal=False, dead_letter=dead_letter)).dead_letter is dead_letter


@settings(deadline=None, max_examples=50)
@given(outcomes, turns, policies, lefts, jitters)
def test_every_settlement_is_a_legal_end_of_a_claim(
    outcome: Outcome, turn: ClaimedTurn, policy: Policy, left: float, jitter: float
) -> None:
    settlement = decide(outcome, turn, policy, seconds_left=left, jitter=jitter)

    assert (settlement is None) is (outcome == Stopped(StopReason.SUPERSEDED))
    assume(settlement is not None)
    assert settlement is not None
    assert settlement.status in TRANSITIONS[TurnStatus.RUNNING]
    assert settlement.outcome.status is settlement.status
    assert settlement.dead_letter <= (settlement.status is TurnStatus.FAILED)
    assert (settlement.after_seconds > 0) <= (settlement.status is TurnStatus.PENDING)
    # No turn that has run waits beyond its expiry.
    assert settlement.after_seconds <= max(0.0, left)
    assert settlement.refund is (settlement.outcome in FREE)
    assert not (settlement.refund and settlement.fault)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 50), jitters)
def test_a_retry_waits_a_fraction_of_the_ceiling_of_its_failures(failed_before: int, jitter: float) -> None:
    policy = Policy(max_attempts=100, base_seconds=0.5, cap_seconds=60.0)

    settlement = settled(BOOM, replace(TURN, failures=failed_before), policy, jitter=jitter)

    assert settlement.after_seconds == jitter * ceiling(failed_before + 1, 0.5, 60.0)
