"""Whether leases can be renewed at present, as far as this process has seen. Pure: times are arguments, in monotonic seconds.

An expired lease means a lost worker only if a living worker could have renewed it. A stall of Postgres, a lock on the table or a
broken network stops all renewals, and then every lease runs out while every worker lives. So a process marks turns as lost only
after its own renewals have worked for a while, and judges a lease by the clock that they have seen (ADR 0036).
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

UPPER_BOUND_LEASES = 5
"""Leases for which occasional failures of renewals forbid takeovers, at most; for instance where idle connections are cut."""
STEP_SECONDS = 1.0
"""How far the database's clock and the monotonic one may drift apart between two renewals."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which leases have run out because their workers are lost."""

    by: datetime
    """The database's time before which such a lease has run out. Not its clock's: that may have been set forward."""
    proven_seconds: float
    """How long renewals have worked. A lease that is longer proves nothing yet."""


@dataclass(frozen=True, slots=True)
class _Renewed:
    at: datetime
    asked: float
    answered: float

    def has_stepped_since(self, before: "_Renewed") -> bool:
        """Whether the database's clock has been set since `before`. It was read at some time between question and answer."""
        passed = (self.at - before.at).total_seconds()
        least, most = self.asked - before.answered, self.answered - before.asked
        return not least - STEP_SECONDS <= passed <= most + STEP_SECONDS


class RenewalEvidence:
    """The results of one process's renewals. One thread writes it, others may read it."""

    def __init__(self, lease_seconds: float, heartbeat_seconds: float) -> None:
        self._lease = lease_seconds
        self._heartbeat = heartbeat_seconds
        # The longest time between two renewals, or since the last one, in which a stall may hide. A living worker has renewed a
        # heartbeat before the stall at most. By default half a heartbeat is left to it for its next renewal.
        self._recent = lease_seconds / 2
        self._last: _Renewed | None = None
        self._unbroken_since: float | None = None
        self._working_since: float | None = None

    def worked(self, at: datetime, asked: float, answered: float) -> None:
        """Records a renewal that has committed and has skipped none of our rows. An empty one counts, too.

        `at` is the database's clock at some time between the question and the answer.
        """
        before, renewed = self._last, _Renewed(at, asked, answered)
        silence = math.inf if before is None or renewed.has_stepped_since(before) else answered - before.answered
        if self._unbroken_since is None or silence > self._recent:
            self._unbroken_since = answered
        if self._working_since is None or silence > self._lease:
            self._working_since = answered
        self._last = renewed

    def failed(self) -> None:
        """Records a failed renewal, whatever the reason: living workers may have lost their leases."""
        self._unbroken_since = None

    def overdue_seconds(self, now: float) -> float:
        """How overdue the next renewal is; 0 while it is on time. NaN before the first one."""
        return math.nan if self._last is None else max(0.0, now - self._last.answered - self._heartbeat)

    def judge(self, now: float) -> Judgement | None:
        """Which leases mean a lost worker; None: no lease does.

        Either renewals have worked for a whole lease without a failure, so living workers have renewed. Or they have worked now
        and then for UPPER_BOUND_LEASES, never more than a lease apart. Then a lease must have been over for a lease, so that
        living workers have had many chances.
        """
        last = self._last
        if last is None or now - last.answered > self._recent:
            return None
        by = last.at + timedelta(seconds=now - last.answered)
        unbroken, working = _since(self._unbroken_since, now), _since(self._working_since, now)
        if unbroken >= self._lease:
            return Judgement(by, unbroken)
        if working >= UPPER_BOUND_LEASES * self._lease:
            return Judgement(by - timedelta(seconds=self._lease), working / UPPER_BOUND_LEASES)
        return None


def _since(began: float | None, now: float) -> float:
    return 0.0 if began is None else now - began
