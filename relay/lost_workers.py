"""Marks the turns of lost workers, whose leases ran out (`turnstile.statements.lost_turns`), and logs each lost worker once.

A process does so only while its own renewals work: otherwise living workers may have been unable to renew, too.
"""

import time

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.statements.lost_turns import ANY_LOST, MARK_LOST
from turnstile.statements.renew_lease import RENEW

BATCH = 500
"""Turns marked by one statement, at most."""

log = structlog.get_logger("turnstile.relay")


class LostWorkers:
    """Marks the turns of lost workers, in one process."""

    def __init__(self, database: Database, settings: Settings, evidence: RenewalEvidence | None = None) -> None:
        self._database = database
        self._settings = settings
        # A worker's heartbeat writes the evidence. A relay alone has no leases, so it runs an empty renewal before each look.
        self._renews = evidence is None
        self._evidence = evidence or RenewalEvidence(settings.lease_seconds, settings.heartbeat)
        self._reported_forbidden = False

    async def mark(self) -> None:
        """Marks turns whose lease ran out, if the evidence allows it. Raises DatabaseUnavailableError."""
        if self._renews:
            await self._renew_nothing()
        if not self._evidence.allows_takeover(time.monotonic()):
            await self._report_forbidden()
            return
        self._reported_forbidden = False
        for row in await self._database.fetch(MARK_LOST, {"limit": BATCH}):
            log.warning("worker.lost", lost_worker=row["worker_id"], queue=row["queue"], turns=row["turns"])

    async def _renew_nothing(self) -> None:
        try:
            await self._database.fetch(RENEW, {"ids": [], "fences": [], "lease": self._settings.lease_seconds})
        except Exception:
            self._evidence.failed()
            raise
        self._evidence.worked(time.monotonic())

    async def _report_forbidden(self) -> None:
        if self._reported_forbidden:
            return
        [row] = await self._database.fetch(ANY_LOST, {})
        if row["found"]:
            log.warning("takeover.forbidden", reason="renewals have not worked for a whole lease in this process")
            self._reported_forbidden = True
