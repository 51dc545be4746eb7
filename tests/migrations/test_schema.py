"""The schema: migrations up and down, and what the database refuses."""

from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.migration_run import apply
from turnstile.turn.status import TRANSITIONS, TurnStatus

Connection = psycopg.Connection[dict[str, Any]]

# Everything that our migrations can have made.
CATALOG: LiteralString = """
SELECT c.relkind::text AS kind, c.relname::text AS name FROM pg_class c
 WHERE c.relnamespace = to_regnamespace('turnstile') AND c.relname NOT LIKE 'turnstile_version%'
UNION ALL
SELECT 'function', p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace('turnstile')
ORDER BY 1, 2
"""

INDEXES: LiteralString = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'turnstile' ORDER BY 1"

LEGAL_WAY_TO = {
    TurnStatus.PENDING: (),
    TurnStatus.RUNNING: (TurnStatus.RUNNING,),
    TurnStatus.SUCCEEDED: (TurnStatus.RUNNING, TurnStatus.SUCCEEDED),
    TurnStatus.FAILED: (TurnStatus.RUNNING, TurnStatus.FAILED),
    TurnStatus.CANCELED: (TurnStatus.CANCELED,),
}

# With the other columns as each status requires them: a claim takes a new fence, a redrive a new generation.
MOVE: LiteralString = """
UPDATE turns SET status = %(to)s,
       fence = fence + (%(to)s = 'RUNNING')::int,
       generation = generation + (status = 'FAILED' AND %(to)s = 'PENDING')::int,
       lease_until = CASE WHEN %(to)s = 'RUNNING' THEN now() END,
       send_at = CASE WHEN %(to)s = 'PENDING' THEN now() END,
       finished_at = CASE WHEN %(to)s NOT IN ('PENDING', 'RUNNING') THEN now() END
 WHERE id = %(id)s
"""


@pytest.fixture(scope="module")
def connection(stack: Stack, template: str) -> Iterator[Connection]:
    """One database for all tests that read only their own rows."""
    name = f"schema_{uuid4().hex}"
    url = stack.postgres.create_database(name, template=template)
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as opened:
        yield opened
    stack.postgres.drop_database(name)


@pytest.fixture
def session() -> str:
    return uuid4().hex


def look(url: str, statement: LiteralString) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as opened:
        return opened.execute(statement).fetchall()


def insert(connection: Connection, **columns: Any) -> UUID:
    """Inserts a row as a submit does, with these columns changed."""
    row = {
        "id": uuid4(), "tenant_id": "t", "session_id": uuid4().hex, "seq": 1, "queue": "turns", "send_at": "now",
        "expires_at": "infinity", "trace_id": "1", "span_id": "1", **columns,
    }  # fmt: skip
    names = ", ".join(row)
    values = ", ".join(f"%({name})s" for name in row)
    connection.execute(f"INSERT INTO turns ({names}) VALUES ({values})", row)  # type: ignore[arg-type]
    found: UUID = row["id"]
    return found


def insert_in(connection: Connection, status: TurnStatus) -> UUID:
    turn_id = insert(connection)
    for step in LEGAL_WAY_TO[status]:
        connection.execute(MOVE, {"to": step, "id": turn_id})
    return turn_id


def allows(connection: Connection, statement: LiteralString, parameters: dict[str, Any]) -> bool:
    try:
        connection.execute(statement, parameters)
    except psycopg.errors.CheckViolation as error:
        if error.diag.constraint_name != "turns_legal_transition":
            raise
        return False
    return True


# --- migrations


def test_the_migrations_go_up_and_down_and_up_again(bare_url: str) -> None:
    before = look(bare_url, CATALOG)

    apply(DatabasePlace(bare_url))
    up = look(bare_url, CATALOG)
    apply(DatabasePlace(bare_url), "base", down=True)
    down = look(bare_url, CATALOG)
    apply(DatabasePlace(bare_url))

    assert down == before == []
    assert look(bare_url, CATALOG) == up != []


def test_no_index_names_the_lease(connection: Connection) -> None:
    """It would make every heartbeat write to an index."""
    definitions = [row["indexdef"] for row in connection.execute(INDEXES)]

    assert len(definitions) > 10
    assert not [one for one in definitions if "lease_until" in one]


# --- the state machine


def test_the_database_allows_the_transitions_of_the_table_and_no_other(connection: Connection) -> None:
    pairs = [(a, b) for a in TurnStatus for b in TurnStatus if a is not b or a is TurnStatus.RUNNING]

    allowed = {
        (before, after)
        for before, after in pairs
        if allows(connection, MOVE, {"to": after, "id": insert_in(connection, before)})
    }

    assert allowed == {(before, after) for before, follows in TRANSITIONS.items() if before for after in follows}


@pytest.mark.parametrize("status", TurnStatus)
def test_a_turn_begins_only_with_the_statuses_of_the_table(connection: Connection, status: TurnStatus) -> None:
    columns: dict[str, Any] = {"status": status.value}
    if status is TurnStatus.RUNNING:
        columns["lease_until"] = "now"
    if status.is_terminal:
        columns["finished_at"] = "now"

    if status in TRANSITIONS[None]:
        insert(connection, **columns)
    else:
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            insert(connection, **columns)
        assert refused.value.diag.constraint_name == "turns_legal_transition"


def test_a_redrive_needs_a_new_generation(connection: Connection) -> None:
    turn_id = insert_in(connection, TurnStatus.FAILED)

    assert not allows(
        connection,
        "UPDATE turns SET status = 'PENDING', send_at = now(), finished_at = NULL WHERE id = %(id)s",
        {"id": turn_id},
    )


@pytest.mark.parametrize("change", ["fence = fence - 1", "fence = fence - 1, status = 'PENDING', lease_until = NULL"])
def test_the_fence_never_falls(connection: Connection, change: LiteralString) -> None:
    turn_id = insert_in(connection, TurnStatus.RUNNING)

    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        connection.execute(f"UPDATE turns SET send_at = now(), {change} WHERE id = %s", [turn_id])

    assert refused.value.diag.constraint_name == "turns_fence_rises"


@pytest.mark.parametrize("before", [TurnStatus.PENDING, TurnStatus.RUNNING])
def test_a_claim_needs_a_higher_fence(connection: Connection, before: TurnStatus) -> None:
    turn_id = insert_in(connection, before)

    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        connection.execute("UPDATE turns SET status = 'RUNNING', lease_until = now() WHERE id = %s", [turn_id])

    assert refused.value.diag.constraint_name == "turns_fence_rises"


# --- the constraints


@pytest.mark.parametrize(
    ("status", "change", "constraint"),
    [
        ("PENDING", "send_at = NULL", "turns_pending_has_send_at"),
        ("PENDING", "lease_until = now()", "turns_lease_while_running"),
        ("PENDING", "finished_at = now()", "turns_finished_when_ended"),
        ("RUNNING", "lease_until = NULL", "turns_lease_while_running"),
        ("RUNNING", "seq = NULL", "turns_running_has_seq"),
        ("SUCCEEDED", "finished_at = NULL", "turns_finished_when_ended"),
    ],
)
def test_an_inconsistent_row_is_refused(
    connection: Connection, status: str, change: LiteralString, constraint: str
) -> None:
    turn_id = insert_in(connection, TurnStatus(status))

    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        connection.execute(f"UPDATE turns SET {change} WHERE id = %s", [turn_id])

    assert refused.value.diag.constraint_name == constraint


def test_an_unknown_status_is_refused(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        insert(connection, status="PAUSED")


def test_an_unknown_role_is_refused(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        connection.execute(
            "INSERT INTO messages (turn_id, ordinal, role, content) VALUES (%s, 0, 'root', '1')", [uuid4()]
        )

    assert refused.value.diag.constraint_name == "messages_role_known"


def test_a_session_has_one_running_turn(connection: Connection, session: str) -> None:
    first = insert(connection, session_id=session, seq=1)
    second = insert(connection, session_id=session, seq=2)
    connection.execute(MOVE, {"to": "RUNNING", "id": first})

    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        connection.execute(MOVE, {"to": "RUNNING", "id": second})

    assert refused.value.diag.constraint_name == "turns_running"


def test_a_seq_is_used_once_in_a_session(connection: Connection, session: str) -> None:
    insert(connection, session_id=session, seq=1)

    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        insert(connection, session_id=session, seq=1)

    assert refused.value.diag.constraint_name == "turns_session_seq"
