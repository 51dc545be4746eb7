"""Statements that go to Postgres together: results, failures, and that the connection works afterwards."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.probes import until
from turnstile.backends.postgres import pipeline as postgres_pipeline
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.pipeline import PipeliningConnection
from turnstile.config.settings import Settings

HANGS_SECONDS = 60.0
"""A bound for something that takes less than a second."""


@pytest.fixture
async def connection(settings: Settings) -> AsyncIterator[PipeliningConnection]:
    given = conninfo(settings.database, "test")
    async with await PipeliningConnection.connect(given, autocommit=True, row_factory=dict_row) as connection:
        yield connection


async def test_rows_have_names_and_python_values(connection: PipeliningConnection) -> None:
    statement = """
        SELECT $1::text AS text, $2::int AS number, $3::uuid AS id, '{"a": [1]}'::jsonb AS json, now() AS at,
               NULL::text AS nothing, $4::int[] AS numbers
    """

    [[row]] = await connection.run([(statement, ["ü", 7, UUID(int=5), "{1,2}"])])

    assert isinstance(row.pop("at"), datetime)
    assert row == {
        "text": "ü", "number": 7, "id": UUID(int=5), "json": {"a": [1]}, "nothing": None, "numbers": [1, 2]
    }  # fmt: skip


async def test_each_statement_sees_the_writes_of_earlier_ones(connection: PipeliningConnection) -> None:
    await connection.execute("CREATE TEMP TABLE notes (n int)")

    answers = await connection.run(
        [
            ("INSERT INTO notes VALUES ($1)", [1]),
            ("INSERT INTO notes VALUES ($1) RETURNING n", [2]),
            ("SELECT n FROM notes ORDER BY n", []),
        ]
    )

    assert answers == [[], [{"n": 2}], [{"n": 1}, {"n": 2}]]


async def test_the_same_statement_may_come_twice_and_is_prepared_once(connection: PipeliningConnection) -> None:
    for _ in range(2):
        assert await connection.run([("SELECT $1::text AS it", ["a"]), ("SELECT $1::text AS it", ["b"])]) == [
            [{"it": "a"}],
            [{"it": "b"}],
        ]

    assert len(await _prepared(connection)) == 1


async def test_a_name_means_the_same_statement_on_every_connection(
    settings: Settings, connection: PipeliningConnection
) -> None:
    # Behind a pooler that gives several clients one connection by turns, a name that meant two statements would run the wrong
    # one, and where both take one number it would say nothing.
    given = conninfo(settings.database, "test")
    one, two = ("SELECT $1::int AS one", [1]), ("SELECT $1::int AS two", [1])
    async with await PipeliningConnection.connect(given, autocommit=True, row_factory=dict_row) as other:
        await connection.run([one, two])
        await other.run([two, one])

        assert await _names(connection) == await _names(other)
        assert len(await _names(connection)) == 2


async def test_the_types_of_the_values_are_part_of_the_name(connection: PipeliningConnection) -> None:
    await connection.run([("SELECT $1 AS it", [1])])
    await connection.run([("SELECT $1 AS it", ["a"])])

    assert len(await _names(connection)) == 2


async def test_if_a_statement_fails_nothing_is_done_and_the_first_failure_is_raised(
    connection: PipeliningConnection,
) -> None:
    await connection.execute("CREATE TEMP TABLE notes (n int)")
    insert, divide = "INSERT INTO notes VALUES ($1)", "SELECT 1 / $1::int AS quotient"

    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.run([(insert, [1]), (divide, [0]), ("SELECT $1::int / 0", [1])])

    assert await connection.run([("SELECT n FROM notes", []), (divide, [1])]) == [[], [{"quotient": 1}]]


async def test_a_refused_commit_is_raised_and_nothing_is_done(connection: PipeliningConnection) -> None:
    """A deferred constraint fails after the response to the last statement."""
    await connection.execute("CREATE TEMP TABLE notes (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    insert = "INSERT INTO notes VALUES ($1)"

    with pytest.raises(psycopg.errors.UniqueViolation):
        await connection.run([(insert, [1]), (insert, [1])])

    assert await connection.run([("SELECT n FROM notes", [])]) == [[]]


async def test_a_statement_stays_prepared_if_its_execution_fails(connection: PipeliningConnection) -> None:
    divide = "SELECT 1 / $1::int AS quotient"
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.run([(divide, [0])])

    assert await connection.run([(divide, [1])]) == [[{"quotient": 1}]]
    assert await _prepared(connection) == [divide]


async def test_a_statement_that_could_not_be_prepared_is_prepared_later(connection: PipeliningConnection) -> None:
    select = "SELECT n FROM notes_of_later"
    with pytest.raises(psycopg.errors.UndefinedTable):
        await connection.run([(select, [])])
    await connection.execute("CREATE TEMP TABLE notes_of_later (n int)")

    assert await connection.run([(select, [])]) == [[]]


async def test_a_deallocated_statement_is_prepared_again(connection: PipeliningConnection) -> None:
    select = "SELECT $1::text AS it"
    await connection.run([(select, ["a"])])
    await connection.execute("DEALLOCATE ALL")

    assert await connection.run([(select, ["b"]), (select, ["c"])]) == [[{"it": "b"}], [{"it": "c"}]]


async def test_a_statement_that_a_cancelled_caller_had_prepared_is_prepared_again(
    connection: PipeliningConnection, settings: Settings
) -> None:
    """The server has prepared it, and the client has not read the response."""
    select = "SELECT pg_sleep($1::float8)"
    cancelled = asyncio.create_task(connection.run([(select, [60.0])]))
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as other:
        await until(lambda: _sleeps(other, connection))
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    assert await connection.run([("SELECT 1 AS one", []), (select, [0.0])]) == [[{"one": 1}], [{"pg_sleep": ""}]]


async def test_a_statement_whose_columns_have_changed_is_prepared_again(connection: PipeliningConnection) -> None:
    """By a migration under a running process. Postgres refuses such a statement for as long as the connection lives."""
    await connection.execute("CREATE TEMP TABLE notes (n int)")
    select = "SELECT * FROM notes"
    await connection.run([(select, [])])
    await connection.execute("ALTER TABLE notes ADD COLUMN text text")
    await connection.execute("INSERT INTO notes VALUES (1, 'ü')")

    assert await connection.run([(select, [])]) == [[{"n": 1, "text": "ü"}]]


async def test_large_statements_and_large_responses_do_not_block_each_other(connection: PipeliningConnection) -> None:
    """More than the sockets' buffers: the server stops reading until its responses are read."""
    much = "x" * 20_000_000
    statements = [("SELECT repeat('y', 20000000) AS it", []), *[("SELECT length($1::text) AS it", [much])] * 3]

    async with asyncio.timeout(HANGS_SECONDS):
        answers = await connection.run(statements)

    assert [len(rows[0]["it"]) if isinstance(rows[0]["it"], str) else rows[0]["it"] for rows in answers] == [
        20_000_000
    ] * 4


async def test_a_connection_with_unread_responses_is_closed(
    connection: PipeliningConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug while the answers are waited for")

    monkeypatch.setattr(postgres_pipeline, "_consume", fail)
    with pytest.raises(RuntimeError):
        await connection.run([("SELECT 1 AS one", [])])

    assert connection.closed


async def test_the_error_of_a_server_that_disconnects_is_raised(
    connection: PipeliningConnection, settings: Settings
) -> None:
    waiting = asyncio.create_task(connection.run([("SELECT 1 AS one", []), ("SELECT pg_sleep(300)", [])]))
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as other:
        await until(lambda: _sleeps(other, connection))
        await other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

    with pytest.raises(psycopg.errors.AdminShutdown):
        await waiting
    assert connection.closed


async def _prepared(connection: PipeliningConnection) -> list[str]:
    cursor = await connection.execute("SELECT statement FROM pg_prepared_statements")
    return [row["statement"] for row in await cursor.fetchall()]


async def _sleeps(other: psycopg.AsyncConnection[Any], connection: PipeliningConnection) -> bool:
    cursor = await other.execute(
        "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'", [connection.info.backend_pid]
    )
    return await cursor.fetchone() is not None


async def _names(connection: PipeliningConnection) -> dict[str, str]:
    cursor = await connection.execute("SELECT name, statement FROM pg_prepared_statements WHERE name LIKE 'turnstile%'")
    return {row["name"]: row["statement"] for row in await cursor.fetchall()}
