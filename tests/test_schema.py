"""The tables of `turnstile/schema.py` are those that the migrations make."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, insert, text

from tests.conftest import ROOT
from tests.support.stacks.stack import Stack
from turnstile.schema import METADATA, SCHEMA, turns

COPY = "copy"
"""Where the tables are made from the description, to compare what alembic does not."""

# Predicates of indexes, their methods and options, primary keys and check constraints.
KEYS: LiteralString = """
SELECT replace(pg_get_indexdef(i.indexrelid), n.nspname || '.', '') AS definition
  FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relkind = 'r'
UNION ALL
SELECT c.relname || ' ' || o.conname || ' ' || pg_get_constraintdef(o.oid)
  FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND o.contype <> 'n'
"""


@pytest.fixture(scope="module")
def engine(stack: Stack, template: str) -> Iterator[Engine]:
    """An engine of a migrated database. The role's own search path begins with the schema, which alembic would then not name."""
    name = f"schema_{uuid4().hex}"
    url = stack.postgres.create_database(name, template=template)
    path = "-c search_path=public"
    yield (made := create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url, options=path)))
    made.dispose()
    stack.postgres.drop_database(name)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """What a test does is rolled back."""
    with engine.connect() as opened:
        yield opened


@pytest.fixture(scope="module")
def described(engine: Engine) -> set[str]:
    """The keys of tables that are made from the description."""
    with engine.connect().execution_options(schema_translate_map={SCHEMA: COPY}) as connection:
        connection.execute(text(f"CREATE SCHEMA {COPY}"))
        METADATA.create_all(connection)
        return read_keys(connection, COPY)


def read_keys(connection: Connection, schema: str) -> set[str]:
    return set(connection.scalars(text(KEYS), {"schema": schema}))


def compare(connection: Connection, described: set[str]) -> list[Any]:
    """How the tables differ from the description."""

    def is_ours(name: str | None, kind: str, _: object) -> bool:
        return kind != "schema" or name == SCHEMA

    options = {
        "include_schemas": True,
        "include_name": is_ours,
        "compare_type": True,
        "compare_server_default": True,
    }
    context = MigrationContext.configure(connection, opts=options)
    return [*compare_metadata(context, METADATA), *sorted(read_keys(connection, SCHEMA) ^ described)]


def test_the_description_is_what_the_migrations_make(connection: Connection, described: set[str]) -> None:
    assert compare(connection, described) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("ALTER TABLE turns ALTER attempt TYPE bigint", "modify_type"),
        ("ALTER TABLE turns ALTER joining TYPE text[]", "modify_type"),
        ("ALTER TABLE turns ALTER started_at TYPE timestamp", "modify_type"),
        ("ALTER TABLE turns ALTER metadata DROP DEFAULT", "modify_default"),
        ("ALTER TABLE turns ALTER kind SET DEFAULT 'compensation'", "modify_default"),
        ("ALTER TABLE turns ALTER queued_at SET DEFAULT now()", "modify_default"),
        ("ALTER TABLE redrives ALTER id DROP IDENTITY", "modify_default"),
        ("ALTER TABLE turns ALTER worker_id SET NOT NULL", "modify_nullable"),
        ("ALTER TABLE turns ALTER queue DROP NOT NULL", "modify_nullable"),
        ("ALTER TABLE turns DROP claim_id", "add_column"),
        ("ALTER TABLE turns ADD more text", "remove_column"),
        ("DROP TABLE turn_values", "add_table"),
        ("CREATE TABLE more (id int)", "remove_table"),
        ("DROP INDEX turns_trace_id", "add_index"),
        ("CREATE INDEX more ON turns (worker_id)", "remove_index"),
        ("DROP INDEX turns_failed; CREATE INDEX turns_failed ON turns (id) WHERE status = 'FAILED'", "add_index"),
        ("DROP INDEX turns_failed; CREATE INDEX turns_failed ON turns (queue, id)", "INDEX turns_failed"),
        ("DROP INDEX turns_trace_id; CREATE INDEX turns_trace_id ON turns USING hash (trace_id)", "USING hash"),
        ("DROP INDEX turns_waiting; CREATE INDEX turns_waiting ON turns (queue, execute_at)", "add_index"),
        ("ALTER TABLE messages DROP CONSTRAINT messages_pkey, ADD PRIMARY KEY (ordinal, turn_id)", "PRIMARY KEY"),
        ("ALTER TABLE turns DROP CONSTRAINT turns_kind_known", "turns_kind_known"),
        ("ALTER TABLE turns ADD CHECK (attempt >= 0)", "CHECK"),
    ],
)
def test_a_change_of_the_tables_that_the_description_lacks_is_found(
    connection: Connection, described: set[str], change: str, found: str
) -> None:
    """As a migration would make it. The difference is what alembic would do to get back to the description."""
    connection.execute(text(f"SET LOCAL search_path = {SCHEMA}"))
    connection.execute(text(change))
    connection.execute(text("SET LOCAL search_path = public"))

    assert found in str(compare(connection, described))


@pytest.mark.parametrize("schema", [SCHEMA, COPY])
def test_the_join_of_the_page_runs_with_a_table_of_the_user(connection: Connection, schema: str) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tables.md").read_text(), re.MULTILINE | re.DOTALL)
    page: dict[str, Any] = {}
    exec(code, page)  # noqa: S102
    if schema == COPY:
        connection.execute(text(f"CREATE SCHEMA {COPY}"))
        connection.execution_options(schema_translate_map={SCHEMA: COPY})
        METADATA.create_all(connection)
    page["orders"].create(connection)
    one, another = uuid4(), uuid4()
    row = {"tenant_id": "t", "session_id": "s", "queue": "q", "trace_id": "1", "span_id": "1"}
    times = {"send_at": datetime.now(UTC), "expires_at": datetime.now(UTC)}
    connection.execute(insert(turns), [{"id": one, **row, **times}, {"id": another, **row, **times}])
    connection.execute(insert(page["orders"]), [{"number": "A-1", "turn_id": one}, {"number": "A-2", "turn_id": None}])

    [found] = connection.execute(page["open_orders"])

    assert (found.number, found.status) == ("A-1", "PENDING")


def test_each_table_and_each_column_has_its_sentence() -> None:
    sentences = [table.info["doc"] for table in METADATA.sorted_tables]
    sentences += [column.doc for table in METADATA.sorted_tables for column in table.columns]

    assert [one for one in sentences if not one or not one.endswith(".")] == []
