"""Migrations that build an index: writes to the table go on meanwhile, and a build that was broken off is repeated."""

import asyncio
import os
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config

from tests.conftest import ROOT
from tests.ops.conftest import Turnstile
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.ops import migration_run
from turnstile.statements.submit import submit

HANGS_SECONDS = 60.0

NEXT_VERSION = """
from turnstile.migrations.lock_timeouts import build_index

revision, down_revision = "0002", "0001"


def upgrade():
    build_index("turns_worker", "turns (worker_id) WHERE worker_id IS NOT NULL")
"""

WAITS = """
SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE a.datname = current_database() AND a.application_name = 'turnstile-migrate' AND NOT l.granted
   AND clock_timestamp() - l.waitstart > '0.2s'
"""

INDEX = """
SELECT i.indisvalid AS valid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'turns_worker'
"""


@pytest.fixture(autouse=True)
def _a_later_version_builds_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0002_index.py").write_text(NEXT_VERSION)
    configure = migration_run._config

    def with_it(place: DatabasePlace | None = None, by: str | None = None) -> Config:
        config = configure(place, by)
        released = ROOT / "migrations" / "versions"
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", os.pathsep.join(map(str, (released, tmp_path))))
        return config

    monkeypatch.setattr(migration_run, "_config", with_it)


async def test_a_submit_goes_on_while_the_build_waits_for_another_transaction(
    turnstile: Turnstile, settings: Settings, database: Database
) -> None:
    await submit(database, [make_submission("turns", "a")], resend_seconds=60)
    with psycopg.connect(settings.database_url) as other:
        other.execute("UPDATE turns SET sends = sends")
        running = asyncio.create_task(turnstile("migrate"))
        await until(lambda: database.fetch(WAITS, {}))

        await asyncio.wait_for(submit(database, [make_submission("turns", "b")], resend_seconds=60), HANGS_SECONDS)
        still_waits = await database.fetch(WAITS, {})
        other.rollback()
    ran = await running

    assert still_waits
    assert ran.code == 0, ran.err
    assert [row["valid"] for row in await database.fetch(INDEX, {})] == [True]


async def test_a_build_that_was_broken_off_is_repeated(
    turnstile: Turnstile, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, psycopg.connect(settings.database_url) as other:
        patched.setattr("turnstile.migrations.lock_timeouts.INDEX_LOCK_TIMEOUT", "200ms")
        other.execute("LOCK TABLE turns IN ROW EXCLUSIVE MODE")
        broken_off = await turnstile("migrate")
        other.rollback()
    left = await database.fetch(INDEX, {})
    again = await turnstile("migrate")

    assert (broken_off.code, len(broken_off.err.splitlines())) == (4, 1)
    assert [row["valid"] for row in left] == [False]
    assert again.code == 0, again.err
    assert [row["valid"] for row in await database.fetch(INDEX, {})] == [True]


async def test_the_printed_sql_builds_it_without_a_transaction(
    turnstile: Turnstile, settings: Settings, database: Database
) -> None:
    printed = (await turnstile("migrate", "--sql")).out
    with psycopg.connect(settings.database_url, autocommit=True) as by_hand:
        for statement in printed.split(";\n\n"):
            by_hand.execute(statement)  # type: ignore[call-overload]

    assert [row["valid"] for row in await database.fetch(INDEX, {})] == [True]
    assert (await turnstile("migrate")).err.startswith("the tables are at 0002")
