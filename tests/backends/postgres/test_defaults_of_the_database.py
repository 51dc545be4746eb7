"""What the owner of a database has set for it: no connection of ours sees values differently for that."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from tests.support.claims import claimed
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.turns import read_turn
from turnstile.statements.submit import submit


def set_for_all(settings: Settings, name: str, value: str) -> None:
    with psycopg.connect(settings.database_url, autocommit=True) as owner:
        alter = SQL("ALTER DATABASE {} SET {} = {}")
        owner.execute(alter.format(Identifier(owner.info.dbname), Identifier(name), Literal(value)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("datestyle", "German"),
        ("datestyle", "SQL, DMY"),
        ("intervalstyle", "iso_8601"),
        ("extra_float_digits", "-15"),
        ("array_nulls", "off"),
        ("bytea_output", "escape"),
        ("standard_conforming_strings", "off"),
        ("client_encoding", "LATIN1"),
        ("default_transaction_isolation", "serializable"),
        ("search_path", "public"),
        ("search_path", ""),
    ],
)
async def test_a_turn_is_stored_claimed_and_read_the_same(settings: Settings, name: str, value: str) -> None:
    set_for_all(settings, name, value)
    given = make_submission(settings.queue, content="é 🙂", timeout_seconds=123.456789)

    async with Database(settings.database, "test", size=1, pinned=True) as database:
        await submit(database, [given], resend_seconds=60.0)
        turn = await claimed(database, settings)
        read = await read_turn(database, "t", given.turn_id)

    assert read is not None
    assert (turn.timeout_seconds, read.timeout_seconds) == (123.456789, 123.456789)
    assert (turn.inputs, read.inputs) == (("é 🙂",), ["é 🙂"])
    assert (read.error, read.max_attempts, read.created_at) == (None, None, turn.created_at)
    assert abs(read.created_at - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize("pinned", [True, False])
async def test_no_connection_compiles_its_statements(settings: Settings, pinned: bool) -> None:
    # Where sequential scans are off, servers before 18 give one a price beyond each threshold of the compiler: the doctor's
    # statements took a second each to compile, and milliseconds to run.
    set_for_all(settings, "jit", "on")

    async with Database(settings.database, "test", size=1, pinned=pinned) as database:
        [row] = await database.fetch("SELECT current_setting('jit') AS jit", {})

    assert row["jit"] == "off"
