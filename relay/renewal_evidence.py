"""Whether leases can be renewed at present, as far as this process has seen. Pure: times are arguments, in monotonic seconds.

A lease that ran out says that its worker is lost only where a living worker could have renewed it. A stall of Postgres, a lock on
the table or a broken network stops all renewals, and then every lease runs out while every worker lives. So a process marks turns
as lost only after renewals of its own have worked for a while (ADR 0064).
"""

UPPER_BOUND_LEASES = 5
"""Renewals that fail now and then, for instance where idle connections are cut, forbid takeovers for no longer than this."""


class RenewalEvidence:
    """What the renewals of one process have come to. One thread writes it, others may read it."""

    def __init__(self, lease_seconds: float, heartbeat_seconds: float) -> None:
        self._lease = lease_seconds
        self._recent = 2 * heartbeat_seconds
        self._worked_at: float | None = None
        self._unbroken_since: float | None = None
        self._working_since: float | None = None

    def worked(self, now: float) -> None:
        """A renewal has succeeded. It counts without a turn in hand as well: the statement needs the same locks."""
        silence = 0.0 if self._worked_at is None else now - self._worked_at
        if self._unbroken_since is None or silence > self._recent:
            self._unbroken_since = now
        if self._working_since is None or silence > self._lease:
            self._working_since = now
        self._worked_at = now

    def failed(self) -> None:
        """A renewal has failed, for whatever reason: the living may have lost their leases by it."""
        self._unbroken_since = None

    def allows_takeover(self, now: float) -> bool:
        """Whether a lease that has run out by now says that its worker is lost.

        Renewals have worked for a whole lease without a failure, so the living have renewed. Or they have worked now and then for
        UPPER_BOUND_LEASES, never a lease apart, so the living have had many chances.
        """
        if self._worked_at is None or now - self._worked_at > self._recent:
            return False
        return _for(self._unbroken_since, now, self._lease) or _for(
            self._working_since, now, UPPER_BOUND_LEASES * self._lease
        )


def _for(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds
