"""Evidence that renewals work: beats give it, a lock on the whole table takes it away."""

import time

import psycopg

from tests.support.heartbeats import Beating
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_beats_without_a_turn_are_evidence_too(beating: Beating) -> None:
    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))


async def test_a_lock_on_the_whole_table_takes_the_evidence_away(
    settings: Settings, database: Database, beating: Beating
) -> None:
    """No worker can renew meanwhile, so a lease that runs out is no evidence of a lost worker."""
    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))

    with psycopg.connect(settings.database_url) as other:
        other.execute("LOCK TABLE turns IN SHARE MODE")
        await until(lambda: not beating.heartbeat.evidence.allows_takeover(time.monotonic()))

    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))
