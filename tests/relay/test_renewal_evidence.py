"""When a lease that ran out says that its worker is lost: by what the renewals of one process have come to."""

import math

from turnstile.relay.renewal_evidence import UPPER_BOUND_LEASES, RenewalEvidence

LEASE = 30.0
HEARTBEAT = 10.0


def beaten(*beats: float, failed: tuple[float, ...] = ()) -> RenewalEvidence:
    """Renewals at these times; `failed` are among them."""
    evidence = RenewalEvidence(LEASE, HEARTBEAT)
    for at in sorted({*beats, *failed}):
        if at in failed:
            evidence.failed()
        else:
            evidence.worked(at)
    return evidence


def test_without_a_renewal_no_takeover_is_allowed() -> None:
    assert not RenewalEvidence(LEASE, HEARTBEAT).allows_takeover(1000.0)


def test_a_lease_of_working_renewals_allows_takeovers() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 30.0)

    assert not evidence.allows_takeover(29.9)
    assert evidence.allows_takeover(30.0)


def test_a_failed_renewal_starts_the_lease_again() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 30.0, 41.0, 50.0, 60.0, 70.0, failed=(40.0,))

    assert not evidence.allows_takeover(70.9)
    assert evidence.allows_takeover(71.0)


def test_the_last_renewal_must_be_recent() -> None:
    """The process, its thread or the statement may have stood still since."""
    evidence = beaten(0.0, 10.0, 20.0, 30.0)

    assert evidence.allows_takeover(50.0)
    assert not evidence.allows_takeover(50.1)


def test_a_gap_between_renewals_starts_the_lease_again() -> None:
    evidence = beaten(0.0, 10.0, 20.0, 45.0, 55.0, 65.0)

    assert not evidence.allows_takeover(74.9)
    assert evidence.allows_takeover(75.0)


def test_occasional_failures_forbid_takeovers_for_some_leases_only() -> None:
    """Idle connections that are cut again and again fail every other renewal. Dead workers' turns must not hang for ever."""
    bound = UPPER_BOUND_LEASES * LEASE
    beats = [at for at in range(0, 400, 10) if at % 20 == 0]
    evidence = RenewalEvidence(LEASE, HEARTBEAT)
    allowed = []
    for at in range(0, 400, 10):
        if at in beats:
            evidence.worked(float(at))
        else:
            evidence.failed()
        allowed.append((at, evidence.allows_takeover(float(at))))

    assert [at for at, may in allowed if may and at < bound] == []
    assert [at for at, may in allowed if not may and at > bound] == []


def test_a_stall_longer_than_a_lease_starts_the_bound_again() -> None:
    evidence = beaten(*range(0, 1000, 10), 2000.0)

    assert not evidence.allows_takeover(2000.0)


def test_a_renewal_is_overdue_when_the_next_heartbeat_is_past() -> None:
    evidence = beaten(1000.0)

    assert [evidence.overdue_seconds(1000.0 + seconds) for seconds in (0, HEARTBEAT, HEARTBEAT + 2)] == [0, 0, 2]
    assert math.isnan(RenewalEvidence(LEASE, HEARTBEAT).overdue_seconds(1000.0))
