"""Whether leases can be renewed at present, as far as this process has seen. Pure: times are arguments, in monotonic seconds.

An expired lease means a lost worker only if a living worker could have renewed it. A stall of Postgres, a lock on the table or a
broken network stops all renewals, and then every lease runs out while every worker lives. So a process marks turns as lost only
after its own renewals have worked for a while (ADR 0003).
"""

import math

UPPER_BOUND_LEASES = 5
"""Leases for which occasional failures of renewals forbid takeovers, at most; for instance where idle connections are cut."""


class RenewalEvidence:
    """The results of one process's renewals. One thread writes it, others may read it."""

    def __init__(self, lease_seconds: float, heartbeat_seconds: float) -> None:
        self._lease = lease_seconds
        self._heartbeat = heartbeat_seconds
        self._recent = 2 * heartbeat_seconds
        self._worked_at: float | None = None
        self._unbroken_since: float | None = None
        self._working_since: float | None = None

    def worked(self, now: float) -> None:
        """Records a successful renewal. An empty one counts, too: the statement needs the same locks."""
        silence = 0.0 if self._worked_at is None else now - self._worked_at
        if self._unbroken_since is None or silence > self._recent:
            self._unbroken_since = now
        if self._working_since is None or silence > self._lease:
            self._working_since = now
        self._worked_at = now

    def failed(self) -> None:
        """Records a failed renewal, whatever the reason: living workers may have lost their leases."""
        self._unbroken_since = None

    def overdue_seconds(self, now: float) -> float:
        """By how much the next renewal is overdue; 0 while it is on time. NaN before the first one."""
        return math.nan if self._worked_at is None else max(0.0, now - self._worked_at - self._heartbeat)

    def allows_takeover(self, now: float) -> bool:
        """Whether a lease that has run out by now means that its worker is lost.

        Either renewals have worked for a whole lease without a failure, so living workers have renewed. Or they have worked now
        and then for UPPER_BOUND_LEASES, never more than a lease apart, so living workers have had many chances.
        """
        if self._worked_at is None or now - self._worked_at > self._recent:
            return False
        return _for(self._unbroken_since, now, self._lease) or _for(
            self._working_since, now, UPPER_BOUND_LEASES * self._lease
        )


def _for(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds
