"""The version of the tables: which a process works with, what it says of the others, and that it goes on when they fit."""

import asyncio
from contextlib import suppress

import pytest
import structlog.testing

from tests.backends.postgres.refusals import refusal
from tests.support.metric_readings import rising
from tests.support.probes import let_the_loop_turn, until
from turnstile.backends.postgres import table_version
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.table_version import MISSING, NEWER, OLDER, READ_VERSION, tables_refused
from turnstile.config.settings import Settings
from turnstile.errors import MISFIT, DatabaseUnavailableError, TablesUnfitError
from turnstile.ops.migration_run import apply, known_revisions
from turnstile.statements.advance_fences import ADVANCE

FIRST = pytest.mark.parametrize("first", [READ_VERSION, ADVANCE], ids=["api_and_relay", "worker"])


def test_the_program_knows_the_versions_that_it_can_migrate_to() -> None:
    assert list(table_version.VERSIONS) == known_revisions()[::-1]


@pytest.mark.parametrize(
    ("version", "serves_from", "refused"),
    [
        ("0002", "0001", None),
        ("0001", "0001", OLDER),
        # Tables of the next release, which this one works with.
        ("0003", "0002", None),
        ("0003", "0001", None),
        ("0004", "0003", NEWER),
    ],
)
def test_newer_tables_do_if_they_serve_this_program(
    monkeypatch: pytest.MonkeyPatch, version: str, serves_from: str, refused: str | None
) -> None:
    monkeypatch.setattr(table_version, "VERSIONS", ("0001", "0002"))

    assert tables_refused({"version": version, "serves_from": serves_from, "sees_no_row": False}) == refused


async def works(database: Database) -> bool:
    try:
        await database.ping()
    except DatabaseUnavailableError:
        return False
    return True


@FIRST
async def test_without_tables_nothing_is_done_and_the_log_says_once_what_to_do(bare_url: str, first: str) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Database(DatabasePlace(bare_url), "test", size=2, first=first, wait_seconds=0.5) as database:
            assert await refusal(database) == MISSING
            with pytest.raises(TablesUnfitError, match=f"^{MISSING}$"):
                await database.fetch("SELECT 1", {})

    assert [line["reason"] for line in lines if line["event"] == "database.refused"] == [MISSING]


async def test_what_is_known_of_the_tables_is_said_at_once_and_looked_at_again(bare_url: str) -> None:
    async def refused_at_once() -> str | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                return await refusal(database)
        return None

    async with Database(DatabasePlace(bare_url), "test", size=1, first=READ_VERSION, wait_seconds=3600.0) as database:
        assert await until(refused_at_once) == MISSING

        await asyncio.to_thread(apply, DatabasePlace(bare_url))

        assert await until(lambda: works(database))


async def test_calls_that_are_refused_at_once_leave_one_look_behind_and_count_as_failures(bare_url: str) -> None:
    async with Database(DatabasePlace(bare_url), "test", size=1, first=READ_VERSION, wait_seconds=0.5) as database:
        assert await refusal(database) == MISSING
        before = database._pool.get_stats()["requests_waiting"]

        with rising("turnstile_backend_failures_total", 20, backend="postgres"):
            for _ in range(20):
                with pytest.raises(TablesUnfitError, match=f"^{MISSING}$"):
                    await database.ping()
        await let_the_loop_turn(5)

        assert database._pool.get_stats()["requests_waiting"] <= before + 1


@FIRST
async def test_a_migration_heals_it_without_a_restart(bare_url: str, first: str) -> None:
    async with Database(DatabasePlace(bare_url), "test", size=2, first=first, wait_seconds=0.5) as database:
        assert await refusal(database) == MISSING

        await asyncio.to_thread(apply, DatabasePlace(bare_url))

        assert await until(lambda: works(database))


@FIRST
@pytest.mark.parametrize(("serves_from", "refused"), [("0001", False), ("9998", True)])
async def test_newer_tables_are_refused_only_if_they_do_not_serve_this_program(
    settings: Settings, database: Database, first: str, serves_from: str, refused: bool
) -> None:
    await database.fetch(
        "UPDATE turnstile_version SET version_num = '9999', serves_from = %(from)s", {"from": serves_from}
    )

    async with Database(settings.database, "test", size=1, first=first, wait_seconds=0.5) as process:
        if refused:
            assert await refusal(process) == NEWER
        else:
            assert await until(lambda: works(process))


@FIRST
async def test_tables_that_go_away_under_a_running_process_are_named_and_come_back(
    settings: Settings, database: Database, first: str
) -> None:
    async with Database(settings.database, "test", size=1, first=first, wait_seconds=30.0) as process:
        await process.ping()
        await database.fetch("ALTER TABLE turnstile_version RENAME TO hidden_version", {})
        await database.fetch("ALTER TABLE turns RENAME TO hidden_turns", {})

        with pytest.raises(TablesUnfitError, match=f"^{MISFIT}$"):
            await process.fetch("SELECT id FROM turns", {})
        with pytest.raises(TablesUnfitError, match=f"^{MISSING}$"):
            await process.ping()

        await database.fetch("ALTER TABLE hidden_turns RENAME TO turns", {})
        await database.fetch("ALTER TABLE hidden_version RENAME TO turnstile_version", {})
        await process.ping()
        assert await process.fetch("SELECT id FROM turns", {}) == []
