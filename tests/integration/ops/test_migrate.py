"""`turnstile migrate`: which databases it finds, and what it says of one that is away."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops.local.ports import choose_free
from tests.integration.ops.conftest import Turnstile
from tests.probes import until
from turns.database import Database
from turns.settings import Settings

Written = Callable[[dict[str, Any]], str]

WAITS_FOR_ANOTHER_MIGRATION = """
SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE a.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted
   AND clock_timestamp() - l.waitstart > '0.5s'
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
async def test_it_takes_every_form_of_the_url_that_the_others_take(
    turnstile: Turnstile, settings: Settings, written: Written
) -> None:
    url = written(conninfo_to_dict(settings.database_url))

    ran = await turnstile("migrate", DATABASE_URL=url)
    listed = await turnstile("list", "--json", DATABASE_URL=url)

    assert (ran.code, listed.code) == (0, 0), ran.err
    assert ran.err.startswith("the tables are at ")


async def test_an_outage_at_its_beginning_may_pass(turnstile: Turnstile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.migrate.wait_for_database", lambda *_: None)

    ran = await turnstile("migrate", DATABASE_URL=f"postgresql://127.0.0.1:{choose_free()}/x")

    assert ran.code == 4
    assert ran.err.startswith("turnstile: the database does not answer: ")


async def test_an_outage_in_the_middle_may_pass(turnstile: Turnstile, settings: Settings, database: Database) -> None:
    with another_migration(settings):
        running = asyncio.create_task(turnstile("migrate"))
        found = await until(lambda: database.fetch(WAITS_FOR_ANOTHER_MIGRATION, {}))
        await database.fetch("SELECT pg_terminate_backend(%(pid)s::int)", {"pid": found[0]["pid"]})
        ran = await running

    # Connected as all others connect, so never with a server that takes no writes.
    assert found[0]["application_name"] == "turnstile-migrate"
    assert ran.code == 4
    assert ran.err.startswith("turnstile: the database does not answer: ")
