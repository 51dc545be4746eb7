"""Each hot statement reaches its rows by key, whatever the planner's statistics are (ADR 0011).

A connection pins the plan of a statement at its first use, mostly while the tables are at rest. So each statement runs in a burst
with the plan that was made before the burst, with one that is made in it, and with one that is made for its parameters. The test
counts what it reads: for ten turns among thousands, tens of rows.
"""

from collections.abc import Callable, Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.statements.plans.crowd import MANY, TENANT, arrive, end_all
from tests.statements.plans.statements import Call, calls
from tests.statements.plans.touched import Touched, execute, prepare
from tests.support.databases import Databases
from tests.support.executed_statements import executed_by
from tests.support.process_roles import url_of
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.roles.kinds import Kind

MOST_ROWS = MANY // 3
MOST_PAGES = 900
BEFORE, DURING, FITTED = "planned before the burst", "planned in the burst", "planned for its parameters"
ANALYSED = "planned before the burst, after an ANALYZE"

TABLES: LiteralString = (
    "turns, sessions, messages, turn_attempts, turn_values, submissions, chosen_ids, memory_items, webhooks, "
    "webhook_secrets"
)


def new(connection: psycopg.Connection) -> None:
    """As the migration has made them."""


def empty(connection: psycopg.Connection) -> None:
    """Statistics of vacuumed, empty tables."""
    connection.execute("VACUUM ANALYZE")


def nearly_empty(connection: psycopg.Connection) -> None:
    """Statistics of tables with five turns."""
    connection.execute("DELETE FROM turns WHERE id NOT IN (SELECT id FROM turns LIMIT 5)")
    connection.execute("VACUUM ANALYZE")


def resting(connection: psycopg.Connection) -> None:
    """As autovacuum leaves them after a burst."""
    end_all(connection)
    connection.execute("VACUUM ANALYZE")


def bursting(connection: psycopg.Connection) -> None:
    """Statistics of a table that was analysed in the middle of a burst."""
    connection.execute("VACUUM ANALYZE")


def truncated(connection: psycopg.Connection) -> None:
    """Statistics of tables that were truncated after a rest."""
    resting(connection)
    connection.execute(f"TRUNCATE {TABLES}")


def restored(connection: psycopg.Connection) -> None:
    """None, as after a dump and a restore: only the indexes have been counted, when they were built."""
    end_all(connection)
    # One statement a transaction: what VACUUM FULL and CREATE INDEX leave in pg_class is what a restore leaves there.
    connection.execute("VACUUM FULL")
    connection.execute("DELETE FROM pg_statistic WHERE starelid >= 16384")


STATES: dict[str, Callable[[psycopg.Connection], None]] = {
    each.__name__: each for each in (new, empty, nearly_empty, resting, bursting, truncated, restored)
}
WITHOUT_TURNS = ("new", "empty")


@pytest.fixture(scope="module")
def used(stack: Stack, template: str) -> Iterator[str]:
    """A database that has had a burst. Cloned, because its turns take longer to insert than to copy."""
    name = "plans_used"
    with psycopg.connect(stack.postgres.create_database(name, template=template), autocommit=True) as connection:
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'turnstile'").fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        arrive(connection, "old")
    yield name
    stack.postgres.drop_database(name)


@pytest.mark.parametrize("state", STATES)
def test_a_statement_reads_no_more_rows_in_a_burst(
    stack: Stack, databases: Databases, template: str, used: str, state: str
) -> None:
    # A database of its own: an emptied one would keep its statistics.
    name = f"plans_{state}"
    url = stack.postgres.create_database(name, template=template if state in WITHOUT_TURNS else used)
    try:
        assert greedy(url, state) == {}
    finally:
        databases.drop(name)


@pytest.mark.parametrize("state", STATES)
def test_the_policies_of_the_api_change_no_plan(
    stack: Stack, databases: Databases, template: str, used: str, state: str
) -> None:
    name = f"policies_{state}"
    url = stack.postgres.create_database(name, template=template if state in WITHOUT_TURNS else used)
    try:
        assert greedy(url, state, of_api=True) == {}
    finally:
        databases.drop(name)


def greedy(url: str, state: str, *, of_api: bool = False) -> dict[str, Touched]:
    """The statements that read too much in a burst, if these were the statistics before. `of_api`: the API's, under its role."""
    asked = [call for call in calls() if not of_api or call.statement in executed_by(Kind.API)]
    # As the product's connections do: each text is prepared once, and its plan is pinned at the first call.
    names = {call.statement: f"hot_{number}" for number, call in enumerate(asked)}
    pinned = conninfo(DatabasePlace(url_of(Kind.API, url) if of_api else url), "test", pinned=True)
    with (
        psycopg.connect(url, autocommit=True) as connection,
        psycopg.connect(pinned, autocommit=True) as before,
        psycopg.connect(pinned, autocommit=True) as during,
        psycopg.connect(pinned, autocommit=True) as fitted,
    ):
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'turnstile'").fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        STATES[state](connection)

        def run(planned: psycopg.Connection, call: Call) -> Touched:
            return execute(planned, names[call.statement], call.statement, call.parameters)

        for planned in (before, during, fitted):
            planned.execute("SELECT set_config('turnstile.tenants', %s, false)", [TENANT])
            for statement, name in names.items():
                prepare(planned, name, statement)
        for call in asked:
            run(before, call)
        arrive(connection, "burst")
        fitted.execute("SET plan_cache_mode = force_custom_plan")
        found = {}
        for when, planned in ((BEFORE, before), (DURING, during), (FITTED, fitted)):
            # A bad plan should be reported as such, however long it takes.
            planned.execute("SET statement_timeout = 0")
            for call in asked:
                if (call.pinned_only and planned is fitted) or (call.long and state == "nearly_empty"):
                    continue
                found[f"{call.name}, {when}"] = run(planned, call)
        connection.execute("ANALYZE turns")
        found |= {f"{call.name}, {ANALYSED}": run(before, call) for call in asked if call.long}
    # While a table is known to be empty, all its indexes cost the same: the planner may take another that has the id, too, and
    # reads its pages, though not its rows. It plans again as soon as the table is analysed.
    tied = state == "empty"
    return {
        name: touched
        for name, touched in found.items()
        if touched.rows > MOST_ROWS or (touched.pages > MOST_PAGES and not (tied and name.endswith(BEFORE)))
    }
