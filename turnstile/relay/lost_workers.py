"""Marks the turns of lost workers, whose leases ran out (`turnstile.statements.lost_turns`), and logs each lost worker once.

A process does so only while its own renewals work: otherwise living workers may have been unable to renew, too.
"""

import time

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.statements.lost_turns import ANY_LOST, mark_lost
from turnstile.statements.renew_lease import renew
from turnstile.telemetry.metrics import WORKERS_LOST
from turnstile.telemetry.own_log import log

BATCH = 500
"""Turns marked by one statement, at most."""


class LostWorkers:
    """Marks the turns of lost workers, in one process."""

    def __init__(self, database: Database, settings: Settings, evidence: RenewalEvidence | None = None) -> None:
        self._database = database
        self._settings = settings
        # A worker's heartbeat writes the evidence. A relay alone has no leases, so it runs an empty renewal before each look.
        self._renews = evidence is None
        self._evidence = evidence or RenewalEvidence(settings.lease_seconds, settings.heartbeat)
        self._reported_forbidden = False
        for queue in settings.queues_by_name:
            WORKERS_LOST.add(0, queue)

    async def mark(self) -> None:
        """Marks turns whose lease ran out, if the evidence allows it. Raises DatabaseUnavailableError."""
        if self._renews:
            await self._renew_nothing()
        judgement = self._evidence.judge(time.monotonic())
        if judgement is None:
            await self._report_forbidden()
            return
        self._reported_forbidden = False
        for lost in await mark_lost(self._database, judgement.by, judgement.proven_seconds, BATCH):
            log.warning("worker.lost", lost_worker=lost.worker_id, queue=lost.queue, turns=lost.turns)
            WORKERS_LOST.add(1, lost.queue)

    async def _renew_nothing(self) -> None:
        asked = time.monotonic()
        try:
            renewals = await renew(self._database, [], self._settings.lease_seconds)
        except Exception:
            self._evidence.failed()
            raise
        self._evidence.worked(renewals.at, asked, time.monotonic())

    async def _report_forbidden(self) -> None:
        if self._reported_forbidden:
            return
        [row] = await self._database.fetch(ANY_LOST, {})
        if row["found"]:
            log.warning("takeover.forbidden", reason="renewals have not worked for a whole lease in this process")
            self._reported_forbidden = True
