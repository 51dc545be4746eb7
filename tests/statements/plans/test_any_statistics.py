"""Each hot statement reaches its rows by key, whatever the planner's statistics say (ADR 0057).

A connection pins the plans of its statements when it first needs them, mostly while nothing is to be done. So each is judged with
the plan that was made before a burst, with one that is made in it, and with one that is made for its parameters. It is judged by
what it touches: for ten turns amid thousands it looks at tens of rows.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.statements.plans.crowd import MANY, arrive, end_all
from tests.statements.plans.statements import Call, calls, calls_of_the_relay
from tests.statements.plans.touched import Touched, execute, prepare
from tests.support.databases import Databases
from turnstile.backends.postgres.database import conninfo

MOST_ROWS = MANY // 3
MOST_PAGES = 900
BEFORE, DURING, FITTED = "planned before the burst", "planned in the burst", "planned for its parameters"

TABLES: LiteralString = (
    "turns, sessions, messages, turn_attempts, turn_values, submissions, chosen_ids, memory_items, webhooks"
)


def new(connection: psycopg.Connection) -> None:
    """As the migration has made it."""


def empty(connection: psycopg.Connection) -> None:
    """Vacuumed while there was nothing in it."""
    connection.execute("VACUUM ANALYZE")


def nearly_empty(connection: psycopg.Connection) -> None:
    """Vacuumed while there were five turns in it."""
    arrive(connection, "old")
    connection.execute("DELETE FROM turns WHERE id NOT IN (SELECT id FROM turns LIMIT 5)")
    connection.execute("VACUUM ANALYZE")


def resting(connection: psycopg.Connection) -> None:
    """As autovacuum leaves it when a burst has been answered."""
    arrive(connection, "old")
    end_all(connection)
    connection.execute("VACUUM ANALYZE")


def bursting(connection: psycopg.Connection) -> None:
    """Analysed in the middle of a burst."""
    arrive(connection, "old")
    connection.execute("VACUUM ANALYZE")


def truncated(connection: psycopg.Connection) -> None:
    """Of a rest before a TRUNCATE."""
    resting(connection)
    connection.execute(f"TRUNCATE {TABLES}")


def restored(connection: psycopg.Connection) -> None:
    """None, as after a dump and a restore: only the indexes have been counted, when they were built."""
    arrive(connection, "old")
    end_all(connection)
    # One statement a transaction: what VACUUM FULL and CREATE INDEX leave in pg_class is what a restore leaves there.
    connection.execute("VACUUM FULL")
    connection.execute("DELETE FROM pg_statistic WHERE starelid >= 16384")


STATES: dict[str, Callable[[psycopg.Connection], None]] = {
    each.__name__: each for each in (new, empty, nearly_empty, resting, bursting, truncated, restored)
}


@pytest.fixture(params=list(STATES))
def state(request: pytest.FixtureRequest) -> str:
    """Of the statistics, before a burst."""
    return str(request.param)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """One that nobody had before: emptying leaves the statistics."""
    name = databases.make()
    yield databases.url(name)
    databases.drop(name)


def test_a_hot_statement_looks_at_no_more_rows_in_a_burst(database_url: str, state: str) -> None:
    assert greedy(database_url, state, calls()) == {}


def test_a_round_of_the_relay_looks_at_no_more_rows_in_a_burst(database_url: str, state: str) -> None:
    assert greedy(database_url, state, calls_of_the_relay()) == {}


def greedy(url: str, state: str, wanted: Iterable[Call]) -> dict[str, Touched]:
    """What of it looks at too much, in a burst that comes upon these statistics."""
    made = {f"hot_{number}": call for number, call in enumerate(wanted)}
    pinned = conninfo(url, "test", pinned=True)
    with (
        psycopg.connect(url, autocommit=True) as connection,
        psycopg.connect(pinned, autocommit=True) as before,
        psycopg.connect(pinned, autocommit=True) as during,
        psycopg.connect(pinned, autocommit=True) as fitted,
    ):
        rest(connection, state)
        for name, call in made.items():
            prepare(before, name, call.statement)
            execute(before, name, call.statement, call.parameters)
        arrive(connection, "burst")
        fitted.execute("SET plan_cache_mode = force_custom_plan")
        found = {}
        for when, planned in ((BEFORE, before), (DURING, during), (FITTED, fitted)):
            # A bad plan shall be seen to be bad, however long it takes.
            planned.execute("SET transaction_timeout = 0")
            for name, call in made.items():
                if planned is not before:
                    prepare(planned, name, call.statement)
                found[f"{call.name}, {when}"] = execute(planned, name, call.statement, call.parameters)
    # While a table is empty and known to be, all its indexes cost the same: the planner may take another that has the id, too,
    # and reads its pages, though not its rows. It plans anew as soon as the table is analysed.
    tied = state == "empty"
    return {
        name: touched
        for name, touched in found.items()
        if touched.rows > MOST_ROWS or (touched.pages > MOST_PAGES and not (tied and name.endswith(BEFORE)))
    }


def rest(connection: psycopg.Connection, state: str) -> None:
    for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
        connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    STATES[state](connection)
