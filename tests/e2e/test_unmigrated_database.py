"""Processes on a database without tables: they say so, do nothing, and work once the migration has run."""

import asyncio
from typing import LiteralString

import psycopg
import pytest

from tests.e2e.conftest import StartWorker
from tests.support.probes import until
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.migration_run import apply

WORKS: LiteralString = """
SELECT 1 FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = %s AND query LIKE '%%FROM turns %%'
"""


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_a_process_without_tables_waits_for_the_migration(
    start_worker: StartWorker, bare_url: str, command: str
) -> None:
    process = start_worker(command, DATABASE_URL=bare_url)

    # A worker has a pool for its work, and one for its heartbeat.
    pools = {"worker": 2, "relay": 1}[command]
    await until(lambda: len(process.said("database.refused")) == pools)
    await asyncio.to_thread(apply, DatabasePlace(bare_url))
    with psycopg.connect(bare_url, autocommit=True) as looking:
        await until(lambda: looking.execute(WORKS, [f"turnstile-{command}"]).fetchall())

    assert [line["reason"] for line in process.said("database.refused")] == [
        "the database has no tables: run `turnstile migrate`"
    ] * pools
    # Said once, and not with each try.
    assert not [
        line
        for name in ("heartbeat.failed", "heartbeat.database_away", "relay.round_failed")
        for line in process.said(name)
    ]
    assert not process.said("relay.step_failed")
    assert process.exit_code is None
