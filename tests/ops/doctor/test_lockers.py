"""A transaction that keeps tables or rows locked has its one finding, and no relay and no worker is blamed for it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.database_roles import database_with_roles
from tests.support.outside import outside
from tests.support.row_locks import rows_locked, until_a_call_waits
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import make_pending, tamper
from tests.support.waiting_turns import make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.why.decision import MARGIN_SECONDS


@contextmanager
def table_locked(settings: Settings, mode: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(settings.database_url, application_name="ann-s psql") as transaction:
        transaction.execute(f"LOCK TABLE turns IN {mode} MODE")  # type: ignore[call-overload]
        yield transaction
        transaction.rollback()


@pytest.fixture
def _no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction need not be open for ten seconds first."""
    monkeypatch.setattr("turnstile.ops.doctor.lockers.MARGIN_SECONDS", 0.0)


@pytest.mark.parametrize("mode", ["ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE"])
async def test_a_locked_table_is_one_finding_within_seconds_that_names_who_has_locked_it(
    settings: Settings, mode: str
) -> None:
    with table_locked(settings, mode) as transaction:
        pid, user = transaction.info.backend_pid, transaction.info.user
        began = time.monotonic()
        found = await look(settings, dlq=False)
        seconds = time.monotonic() - began

    assert [(one.code, one.subject) for one in found] == [("table-locked", str(pid))]
    assert f"user {user}, application ann-s psql, open for " in found[0].detail
    assert "idle in transaction, tables turns" in found[0].detail
    assert f"pg_terminate_backend({pid})" in found[0].advice
    assert seconds < MARGIN_SECONDS, "five time-outs take 25 s"


async def test_a_lock_that_waits_behind_a_reader_is_found_with_the_reader(
    database: Database, settings: Settings
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(settings.database_url) as reader,
        await psycopg.AsyncConnection.connect(settings.database_url) as waiter,
    ):
        await reader.execute("SELECT FROM turns")
        waiting = asyncio.create_task(waiter.execute("LOCK TABLE turns"))
        await until_a_call_waits(database)

        [found] = await look(settings, dlq=False)

        await reader.rollback()
        await waiting
        assert (found.code, found.subject) == ("table-locked", str(waiter.info.backend_pid))
        assert f"waits itself for process {reader.info.backend_pid}" in found.detail


@pytest.mark.usefixtures("_no_margin")
async def test_a_locked_row_is_blamed_on_its_transaction_and_on_no_relay(
    database: Database, settings: Settings
) -> None:
    await make_worker(database, settings)
    await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '1 h'")

    with rows_locked(settings) as transaction:
        pid = transaction.info.backend_pid
        found = await look(settings, dlq=False)
    after = await look(settings, dlq=False)

    assert [(one.code, one.subject) for one in found] == [("rows-locked", str(pid))]
    assert "tables turns" in found[0].detail
    assert [(one.code, one.detail) for one in after] == [
        ("send-overdue", "messages: 1, workers of the queue that are alive: 1")
    ]


async def test_a_short_transaction_causes_no_finding(database: Database, settings: Settings) -> None:
    await make_pending(database, settings)

    with rows_locked(settings):
        assert await look(settings, dlq=False) == []


async def test_the_finding_about_another_roles_transaction_hides_its_age_and_shows_the_rest(
    settings: Settings, stack: Stack
) -> None:
    with database_with_roles(stack) as roles, psycopg.connect(outside(roles.owner)) as transaction:
        transaction.execute("SELECT FROM turns FOR UPDATE")

        found = await look(settings.model_copy(update={"database_url": roles.application}), dlq=False)

        [locked] = [one for one in found if one.code == "rows-locked"]
        assert (locked.subject, locked.since) == (str(transaction.info.backend_pid), None)
        assert (
            f"user {transaction.info.user}, application without a name, only its role and pg_monitor see"
            in locked.detail
        )
