"""`turnstile migrate`: the forms of the URL, outages, locks of other transactions, and other migrations."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.ops.conftest import Turnstile
from tests.support.probes import until
from tests.support.stated_version import stating
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import choose_free

Written = Callable[[dict[str, Any]], str]

WAITS_FOR_ANOTHER_MIGRATION = """
SELECT pid, application_name FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'turnstile-migrate' AND state = 'idle'
   AND clock_timestamp() - backend_start > '0.5s'
"""


def url_with_a_dead_host(at: dict[str, Any]) -> str:
    hosts = f"127.0.0.1:{choose_free()},{at['host']}:{at['port']}"
    return f"postgresql://{at['user']}:{at.get('password', '')}@{hosts}/{at['dbname']}"


def url_for_sqlalchemy(at: dict[str, Any]) -> str:
    return f"postgresql+psycopg://{at['user']}:{at.get('password', '')}@{at['host']}:{at['port']}/{at['dbname']}"


def words(at: dict[str, Any]) -> str:
    return make_conninfo(**at)


@contextmanager
def another_migration(settings: Settings) -> Iterator[psycopg.Connection]:
    """One that is under way."""
    with psycopg.connect(settings.database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtext('turnstile.migrate'))")
        yield other


@pytest.mark.parametrize("written", [url_with_a_dead_host, url_for_sqlalchemy, words])
async def test_it_takes_every_form_of_the_url_that_other_commands_take(
    turnstile: Turnstile, settings: Settings, written: Written
) -> None:
    url = written(conninfo_to_dict(settings.database_url))

    ran = await turnstile("migrate", DATABASE_URL=url)
    listed = await turnstile("list", "--json", DATABASE_URL=url)

    assert (ran.code, listed.code) == (0, 0), ran.err
    assert ran.err.startswith("the tables are at ")


async def test_an_outage_may_last_as_long_as_the_command_waits(
    turnstile: Turnstile, settings: Settings, database: Database
) -> None:
    async def terminate() -> None:
        [found] = await until(lambda: database.fetch(WAITS_FOR_ANOTHER_MIGRATION, {}))
        await database.fetch("SELECT pg_terminate_backend(%(pid)s::int)", {"pid": found["pid"]})

    with another_migration(settings):
        running = asyncio.create_task(turnstile("migrate", "--wait", "0"))
        await terminate()
        at_once = await running
        running = asyncio.create_task(turnstile("migrate"))
        await terminate()
    later = await running

    assert (at_once.code, later.code) == (4, 0)
    assert at_once.err.startswith("turnstile: the database does not answer: ")


async def test_what_it_waits_for_is_said_at_once(turnstile: Turnstile, settings: Settings) -> None:
    wrong = make_conninfo(settings.database_url, password="wrong")

    ran = await turnstile("migrate", "--wait", "1", DATABASE_URL=wrong)

    [waits, gave_up] = ran.err.splitlines()
    assert ran.code == 4
    assert "password authentication failed" in waits
    assert waits.endswith("; waiting for it, 1 s at most (--wait)")
    assert "password authentication failed" in gave_up


async def test_behind_a_long_transaction_it_gives_way_with_nothing_half_done(
    turnstile: Turnstile, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.migrations.lock_timeouts.LOCK_TIMEOUT", "100ms")
    down = ("migrate", "--down", "--revision", "base", "--yes")

    with psycopg.connect(settings.database_url) as dump:
        dump.execute("LOCK TABLE turns IN ACCESS SHARE MODE")
        ran = await asyncio.wait_for(turnstile(*down), 30)
    kept = await database.fetch("SELECT to_regclass('archived_turns') IS NOT NULL AS yes", {})
    again = await turnstile(*down)

    assert (ran.code, len(ran.err.splitlines())) == (4, 1)
    assert "nothing half done: run it again" in ran.err
    # The archive had been dropped when the lock on the turns was met.
    assert kept[0]["yes"]
    assert again.code == 0, again.err


async def test_another_migration_is_waited_for_however_long_it_takes(
    turnstile: Turnstile, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.migrations.lock_timeouts.LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr("turnstile.backends.postgres.database.LOCK_TIMEOUT_SECONDS", 0.1)

    with another_migration(settings):
        running = asyncio.create_task(turnstile("migrate"))
        await until(lambda: running.done() or database.fetch(WAITS_FOR_ANOTHER_MIGRATION, {}))
    ran = await running

    assert ran.code == 0, ran.err


async def test_it_goes_down_and_up_again_and_its_printed_sql_gives_way_too(turnstile: Turnstile) -> None:
    down = await turnstile("migrate", "--down", "--revision", "base", "--yes")
    unusable = await turnstile("list")
    printed = (await turnstile("migrate", "--sql")).out
    up = await turnstile("migrate")
    usable = await turnstile("list", "--json")

    assert (down.code, up.code, usable.code) == (0, 0, 0)
    assert (unusable.code, "turnstile migrate" in unusable.err) == (4, True)

    alone, give_way, change = (
        printed.index(one) for one in ("pg_advisory_lock", "lock_timeout = '3s'", "CREATE TABLE archived_turns")
    )
    assert alone < give_way < change < printed.rindex("COMMIT;")
    # A RAISE reads a doubled sign as another text, and its arguments as too many.
    assert "may not go from % to %" in printed


async def test_tables_of_a_later_program_are_left_alone_in_one_line(turnstile: Turnstile, database: Database) -> None:
    await database.fetch("UPDATE turnstile_version SET version_num = '9999'", {})

    for options in ((), ("--sql",), ("--down", "--revision", "base", "--yes")):
        ran = await turnstile("migrate", *options)

        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("turnstile: the tables are at 9999, ")
        assert ran.err.endswith("Nothing was changed: run the later version\n")


@pytest.mark.parametrize("command", [("migrate",), ("migrate", "--sql"), ("list",)])
async def test_a_server_that_is_too_old_is_refused_in_one_line(
    turnstile: Turnstile, settings: Settings, command: tuple[str, ...]
) -> None:
    async with stating(settings.database_url, 14) as url:
        ran = await turnstile(*command, DATABASE_URL=url)

    assert (ran.code, ran.out) == (2, "")
    [line] = ran.err.splitlines()
    assert "the server is PostgreSQL 14." in line
    assert "needs 15 or newer" in line
