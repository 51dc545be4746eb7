"""Row-level security: the API's role sees and writes the rows of the tenants that its transaction has named, and no others."""

from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.ops.roles.kinds import Kind
from turnstile.ops.roles.policies import OF_API
from turnstile.schema import METADATA

Connection = psycopg.Connection[Any]

TENANTS = ("one", "two")

# A row of a tenant in each table. `turn_id` is the turn of that tenant.
ROWS: dict[str, LiteralString] = {
    "turns": """INSERT INTO turns (id, tenant_id, session_id, seq, queue, send_at, expires_at, trace_id, span_id)
                VALUES (%(turn)s, %(tenant)s, %(session)s, 1, 'q', now(), now(), '1', '1')""",
    "sessions": "INSERT INTO sessions (tenant_id, session_id) VALUES (%(tenant)s, %(session)s)",
    "messages": """INSERT INTO messages (turn_id, ordinal, role, content)
                   VALUES (%(turn)s, %(ordinal)s, 'user', '"said"')""",
    "submissions": """INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer)
                      VALUES (%(tenant)s, %(session)s, '', %(turn)s, 'null')""",
    "chosen_ids": "INSERT INTO chosen_ids (tenant_id, turn_id) VALUES (%(tenant)s, %(turn)s)",
    "webhooks": """INSERT INTO webhooks (turn_id, generation, tenant_id, url, event)
                   VALUES (%(turn)s, 1, %(tenant)s, 'https://example.com', 'null')""",
    "archived_turns": """INSERT INTO archived_turns (id, tenant_id, session_id, queue, trace_id, ended_at, turn, messages,
                         attempts, recorded_values, webhooks)
                         VALUES (%(turn)s, %(tenant)s, %(session)s, 'q', '1', now(), '{}', '[]', '[]', '[]', '[]')""",
    "memory_items": """INSERT INTO memory_items (tenant_id, session_id, kind, key, priority, tags, version, write_id, fence,
                                                 created_at, updated_at, expires_at)
                       VALUES (%(tenant)s, %(session)s, 'fact', 'k', 0, '{}', 1, %(turn)s, 1, now(), now(), now())""",
    "erasures": """INSERT INTO erasures (id, tenant_id, session_id, requested_by)
                   VALUES (%(turn)s, %(tenant)s, %(session)s, 'ada')""",
}
WRITTEN_BY_API = ("turns", "sessions", "messages", "submissions", "chosen_ids", "erasures")
CHANGED_BY_API: dict[str, LiteralString] = {
    "turns": "UPDATE turns SET sends = 9",
    "sessions": "UPDATE sessions SET last_seq = 9",
    "submissions": "UPDATE submissions SET answer = '9'",
    "chosen_ids": "UPDATE chosen_ids SET reason = '9'",
    "erasures": "UPDATE erasures SET up_to_seq = 9",
}

WITHOUT_POLICY = {
    "api_keys": "the API looks up a key to learn its tenant",
    "browser_tokens": "the same of a token",
    "audit": "the API adds rows and reads none, also of keys that nobody has",
}
"""Tables with a tenant on which the API has rights and no policy, with the reason."""


@pytest.fixture(scope="module")
def turns() -> dict[str, UUID]:
    return {tenant: uuid4() for tenant in TENANTS}


@pytest.fixture(scope="module")
def roles(stack: Stack, turns: dict[str, UUID]) -> Iterator[RoleUrls]:
    """A database with a row of each tenant in each table."""
    with database_with_roles(stack) as made:
        with psycopg.connect(outside(made.owner), autocommit=True) as owner:
            for tenant, turn in turns.items():
                for statement in ROWS.values():
                    owner.execute(statement, row_of(tenant, turn))
        yield made


@pytest.fixture
def api(roles: RoleUrls) -> Iterator[Connection]:
    """A transaction of the API's role, rolled back."""
    with psycopg.connect(outside(roles.of[Kind.API])) as opened:
        yield opened
        opened.rollback()


def row_of(tenant: str, turn: UUID, session: str = "s", ordinal: int = 0) -> dict[str, Any]:
    return {"tenant": tenant, "turn": turn, "session": session, "ordinal": ordinal}


def name(connection: Connection, *tenants: str) -> None:
    connection.execute("SELECT set_config('turnstile.tenants', %s, true)", [",".join(tenants)])


def count(connection: Connection, table: str) -> int:
    # Of some tables the API may read some columns only.
    column = "turn_id" if table == "messages" else "tenant_id"
    counting = SQL("SELECT count({}) FROM {}").format(Identifier(column), Identifier(table))
    [number] = connection.execute(counting).fetchone() or (-1,)
    return int(number)


def test_each_table_that_the_api_reads_by_tenant_has_row_level_security(roles: RoleUrls) -> None:
    """A new table that has a tenant and rights of the API needs a policy, or a reason."""
    with psycopg.connect(outside(roles.owner)) as owner:
        secured = {name for (name,) in owner.execute("SELECT relname FROM pg_class WHERE relrowsecurity").fetchall()}
        granted = {
            name
            for (name,) in owner.execute(
                """SELECT DISTINCT table_name FROM information_schema.column_privileges WHERE grantee = %s""",
                [roles.role(Kind.API)],
            ).fetchall()
        }
    tenants = {
        table.name for table in METADATA.sorted_tables if "tenant_id" in table.columns or "turn_id" in table.columns
    }

    assert secured == set(OF_API)
    assert (tenants & granted) - secured == set(WITHOUT_POLICY)


@pytest.mark.parametrize("table", OF_API)
def test_the_api_sees_nothing_before_it_names_a_tenant(api: Connection, table: str) -> None:
    assert count(api, table) == 0


@pytest.mark.parametrize("table", OF_API)
def test_the_api_sees_the_rows_of_the_named_tenants_alone(api: Connection, table: str) -> None:
    name(api, "one")
    assert count(api, table) == 1

    name(api, "three")
    assert count(api, table) == 0

    name(api, "one", "two")
    assert count(api, table) == 2


@pytest.mark.parametrize("table", WRITTEN_BY_API)
def test_the_api_writes_no_row_of_another_tenant(api: Connection, turns: dict[str, UUID], table: str) -> None:
    turn = turns["two"] if table == "messages" else uuid4()
    name(api, "one")

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        api.execute(ROWS[table], row_of("two", turn, session="new", ordinal=1))


@pytest.mark.parametrize("table", WRITTEN_BY_API)
def test_the_api_writes_its_own_rows(api: Connection, turns: dict[str, UUID], table: str) -> None:
    name(api, "one")

    api.execute(ROWS[table], row_of("one", uuid4(), session="new"))

    # The message names a turn that is not there.
    assert count(api, table) == (1 if table == "messages" else 2)


@pytest.mark.parametrize("table", CHANGED_BY_API)
def test_the_api_changes_no_row_of_another_tenant(api: Connection, table: str) -> None:
    name(api, "one")

    assert api.execute(CHANGED_BY_API[table]).rowcount == 1


def test_the_name_of_a_tenant_ends_with_the_transaction(api: Connection) -> None:
    name(api, "one")
    api.rollback()

    assert count(api, "turns") == 0


@pytest.mark.parametrize("kind", [Kind.WORKER, Kind.RELAY, Kind.OPERATOR])
def test_the_other_kinds_see_the_rows_of_all_tenants(roles: RoleUrls, kind: Kind) -> None:
    with psycopg.connect(outside(roles.of[kind])) as connection:
        assert [count(connection, table) for table in ("turns", "sessions")] == [2, 2]


def test_a_role_of_all_kinds_sees_the_rows_of_all_tenants(roles: RoleUrls) -> None:
    with psycopg.connect(outside(roles.application)) as connection:
        assert {table: count(connection, table) for table in OF_API} == dict.fromkeys(OF_API, 2)
