"""When a lease that ran out says that its worker is lost: by what the renewals of one process have come to."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from turnstile.relay.renewal_evidence import UPPER_BOUND_LEASES, Judgement, RenewalEvidence

LEASE = 30.0
HEARTBEAT = 10.0
ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


def clock(now: float, *, set_forward: float = 0.0) -> datetime:
    """The database's clock."""
    return ORIGIN + timedelta(seconds=now + set_forward)


def beaten(*beats: float, failed: tuple[float, ...] = ()) -> RenewalEvidence:
    """Renewals at these times; `failed` are among them."""
    evidence = RenewalEvidence(LEASE, HEARTBEAT)
    for at in sorted({*beats, *failed}):
        if at in failed:
            evidence.failed()
        else:
            evidence.worked(clock(at), at, at)
    return evidence


def test_without_a_renewal_no_lease_is_judged() -> None:
    assert RenewalEvidence(LEASE, HEARTBEAT).judge(1000.0) is None


def test_after_a_lease_of_working_renewals_leases_are_judged_by_the_databases_clock() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 30.0)

    assert evidence.judge(29.9) is None
    assert evidence.judge(33.0) == Judgement(by=clock(33.0), proven_seconds=33.0)


def test_a_failed_renewal_starts_the_lease_again() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 30.0, 41.0, 50.0, 60.0, 70.0, failed=(40.0,))

    assert evidence.judge(70.9) is None
    assert evidence.judge(71.0) is not None


def test_the_last_renewal_must_be_recent() -> None:
    """The process, its thread or the statement may have stood still since, or Postgres."""
    evidence = beaten(0.0, 10.0, 20.0, 30.0)

    assert evidence.judge(45.0) is not None
    assert evidence.judge(45.1) is None


def test_a_gap_between_renewals_starts_the_lease_again() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 35.1, 45.0, 55.0, 65.0)

    assert evidence.judge(65.0) is None
    assert evidence.judge(65.2) is not None


def test_occasional_failures_let_leases_be_judged_after_some_leases_if_they_have_been_over_for_one() -> None:
    """Idle connections that are cut again and again fail every other renewal. Dead workers' turns must not hang for ever."""
    bound = UPPER_BOUND_LEASES * LEASE
    evidence = RenewalEvidence(LEASE, HEARTBEAT)
    judged = []
    for at in range(0, 400, 10):
        if at % 20 == 0:
            evidence.worked(clock(at), at, at)
        else:
            evidence.failed()
        judged.append((at, evidence.judge(float(at))))

    assert [at for at, judgement in judged if judgement and at < bound] == []
    assert [at for at, judgement in judged if not judgement and at > bound] == []
    assert [judgement for at, judgement in judged if at == 200] == [Judgement(clock(200 - LEASE), proven_seconds=40.0)]


def test_a_stall_longer_than_a_lease_starts_the_bound_again() -> None:
    evidence = beaten(*range(0, 1000, 10), 2000.0)

    assert evidence.judge(2000.0) is None


@pytest.mark.parametrize("seconds", [25.0, -25.0])
def test_a_clock_that_has_been_set_starts_the_lease_again(seconds: float) -> None:
    """Set forward, it ends the leases of all that live."""
    evidence = beaten(0.0, 10.0, 20.0, 30.0)

    evidence.worked(clock(40.0, set_forward=seconds), 40.0, 40.0)

    assert evidence.judge(40.0) is None


def test_until_the_next_renewal_leases_are_judged_by_the_clock_of_the_last_one() -> None:
    """The database's clock may have been set forward meanwhile."""
    judgement = beaten(0.0, 10.0, 20.0, 30.0).judge(39.0)

    assert judgement is not None
    assert judgement.by == clock(39.0)


def test_a_slow_answer_is_not_taken_for_a_clock_that_has_been_set() -> None:
    evidence = beaten(0.0, 10.0, 20.0)

    evidence.worked(clock(21.0), 21.0, 34.0)
    evidence.worked(clock(40.0), 35.0, 40.0)

    assert evidence.judge(40.0) is not None


def test_a_renewal_is_overdue_when_the_next_heartbeat_is_past() -> None:
    evidence = beaten(1000.0)

    assert [evidence.overdue_seconds(1000.0 + seconds) for seconds in (0, HEARTBEAT, HEARTBEAT + 2)] == [0, 0, 2]
    assert math.isnan(RenewalEvidence(LEASE, HEARTBEAT).overdue_seconds(1000.0))
