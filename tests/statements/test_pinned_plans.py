"""Plans that are pinned while hardly a row is RUNNING or FAILED must bear the day on which thousands are."""

import re
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import postgresql

from tests.support.databases import Databases
from turnstile.backends.postgres.database import conninfo, number_placeholders
from turnstile.config.settings import Settings
from turnstile.queries.history import HISTORY_PAGE, VERSION
from turnstile.queries.operator_turns import OperatorFilter, list_turns_of_all
from turnstile.queries.turns import TurnFilter, list_turns
from turnstile.statements.cancel import CANCEL_PENDING, REQUEST_CANCEL
from turnstile.statements.children import READ_CHILDREN
from turnstile.statements.claim import CLAIM, READ_ENDED
from turnstile.statements.compensate import COMPENSATE_FAILED
from turnstile.statements.defer import DEFER
from turnstile.statements.join import WAKE_JOINED, WAKE_PARENTS
from turnstile.statements.read_claims import READ_CLAIMS
from turnstile.statements.redrive import REVIVE
from turnstile.statements.renew_lease import RENEW
from turnstile.statements.send_due import DEAD_LETTERED
from turnstile.statements.settle import REREAD_SETTLED, SETTLE
from turnstile.statements.waiting_tenants import FIND_WAITING_TENANT
from turnstile.turn.status import TurnStatus

FILL: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, finished_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'o' || g, 1, 'q', %s::text, now(), now(), md5(g::text), 's'
  FROM generate_series(%s::int, %s::int) g
"""

WAITING: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'w' || g, CASE WHEN g <= 5 THEN 1 END, 'q', 'PENDING', now(), now(), md5(g::text), 's'
  FROM generate_series(1, 10) g
"""

BACKLOG_OF_TWO: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), CASE WHEN g = 10000 THEN 'two' ELSE 't' END, 'b' || g, 1, 'q', 'PENDING', now(), now(),
       md5(g::text), 's'
  FROM generate_series(1, 10000) g
"""


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """One that nobody had before: emptying leaves the statistics, and plans are made of those."""
    name = databases.make()
    yield databases.url(name)
    databases.drop(name)


@pytest.mark.parametrize("statement", [READ_CLAIMS, VERSION], ids=["read claims", "version"])
@pytest.mark.parametrize("filled", [False, True], ids=["on an empty table", "on a full one"])
def test_the_last_answered_turn_is_looked_for_from_the_end_of_its_own_session(
    settings: Settings, statement: LiteralString, filled: bool
) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        if filled:
            connection.execute(FILL, ["SUCCEEDED", 1, 5_000])
            connection.execute(FILL, ["FAILED", 5_001, 25_000])
            connection.execute("ANALYZE turns")
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}").fetchall()

    text = "\n".join(line for (line,) in plan)
    assert "Index Scan Backward using turns_session_seq on turns a" in text
    assert "Sort Key: a.seq" not in text


@pytest.mark.parametrize("filled", [False, True], ids=["on an empty table", "on a full one"])
def test_what_was_claimed_is_read_session_by_session(settings: Settings, filled: bool) -> None:
    """And not by going through whatever is RUNNING, which is little when the plan is pinned."""
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        if filled:
            connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
            connection.execute(FILL, ["SUCCEEDED", 1, 5_000])
            connection.execute("ANALYZE turns")
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(READ_CLAIMS)[0]}").fetchall()

    text = "\n".join(line.strip() for (line,) in plan)
    assert (
        "Index Scan using turns_running on turns r\nIndex Cond: ((tenant_id = w.tenant_id) AND (session_id = w.session_id))"
        in text
    )


def test_what_a_claim_has_ended_is_looked_for_from_the_head_of_its_session_backwards(settings: Settings) -> None:
    text = explain(settings, READ_ENDED)

    assert "Index Scan Backward using turns_session_seq on turns p" in text
    assert re.search(r"Index Cond: .*session_id = w\.session_id.* AND \(seq < ", text), text
    assert "Sort" not in text
    assert "turns_failed" not in text
    assert "Seq Scan" not in text


def explain(settings: Settings, statement: LiteralString) -> str:
    """The plan that a connection pins while 5,000 turns are done, with 20,000 FAILED ones to come."""
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(FILL, ["SUCCEEDED", 1, 5_000])
        connection.execute("ANALYZE turns")
        connection.execute("ALTER TABLE turns SET (autovacuum_enabled = false)")
        connection.execute(FILL, ["FAILED", 5_001, 25_000])
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}").fetchall()

    return "\n".join(line for (line,) in plan)


@pytest.mark.parametrize(
    "statement",
    [
        DEAD_LETTERED,
        REVIVE,
        RENEW,
        SETTLE,
        REREAD_SETTLED,
        CLAIM,
        WAKE_PARENTS,
        COMPENSATE_FAILED,
        CANCEL_PENDING,
        REQUEST_CANCEL,
        DEFER,
    ],
    ids=[
        "dead-lettered",
        "revive",
        "renew",
        "settle",
        "reread-settled",
        "claim",
        "wake-parents",
        "compensate",
        "cancel",
        "request-cancel",
        "put-off",
    ],
)
def test_rows_that_are_known_by_id_are_found_by_id(settings: Settings, statement: LiteralString) -> None:
    text = explain(settings, statement)

    assert "turns_pkey" in text
    assert "turns_failed" not in text
    assert "turns_running" not in text


def test_those_who_wait_are_found_among_those_who_wait(settings: Settings) -> None:
    text = explain(settings, WAKE_JOINED)

    assert re.search(r"(Index (Only )?Scan using|Bitmap Index Scan on) turns_joining", text), text
    assert "Seq Scan" not in text


@pytest.fixture
def crowded(settings: Settings) -> Iterator[psycopg.Connection]:
    """20,000 turns of one tenant have ended; of five sessions one waits, and one is scheduled."""
    with psycopg.connect(conninfo(settings.database_url, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(FILL, ["SUCCEEDED", 1, 20_000])
        connection.execute(WAITING)
        connection.execute("ANALYZE turns")
        yield connection


@pytest.mark.parametrize("limit", [21, 101])
@pytest.mark.parametrize(
    ("status", "indexes"),
    [(TurnStatus.PENDING, {"turns_open", "turns_scheduled"}), (TurnStatus.RUNNING, {"turns_running"})],
)
async def test_a_list_of_what_is_open_is_not_looked_for_among_what_has_ended(
    crowded: psycopg.Connection, limit: int, status: TurnStatus, indexes: set[str]
) -> None:
    asked: list[Select[Any]] = []

    class Asked:
        async def query(self, statement: Select[Any]) -> list[Any]:
            asked.append(statement)
            return []

    database: Any = Asked()
    await list_turns(database, TurnFilter(tenant_id="t", status=status), limit=limit)
    await list_turns_of_all(database, OperatorFilter(tenant_id="t", status=status), limit=limit)

    for statement in asked:
        dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
        made = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
        plan = crowded.execute(f"EXPLAIN (COSTS OFF) {made}", made.params).fetchall()
        text = "\n".join(line for (line,) in plan)
        assert {index for index in indexes if index in text} == indexes, text
        assert "turns_tenant_created" not in text, text


def test_a_page_of_a_history_is_read_from_its_place_backwards(settings: Settings) -> None:
    text = explain(settings, HISTORY_PAGE)

    assert "Index Scan Backward using turns_session_seq on turns t" in text
    assert re.search(r"Index Cond: .*session_id = .* AND \(seq <= ", text), text
    assert "Seq Scan" not in text


def test_children_are_found_by_their_parent(settings: Settings) -> None:
    assert "turns_parent" in explain(settings, READ_CHILDREN)


@pytest.mark.parametrize("filled", [False, True], ids=["on an empty table", "on a full one"])
def test_a_tenant_behind_a_backlog_is_looked_for_past_it_and_not_through_it(settings: Settings, filled: bool) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        if filled:
            connection.execute(FILL, ["SUCCEEDED", 1, 5_000])
        connection.execute("ANALYZE turns")
        connection.execute("ALTER TABLE turns SET (autovacuum_enabled = false)")
        statement = number_placeholders(FIND_WAITING_TENANT)[0]
        connection.execute(f"PREPARE look (text, text) AS {statement}")
        connection.execute("EXECUTE look ('t', 'q')")
        connection.execute(BACKLOG_OF_TWO)
        plan = connection.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE look ('t', 'q')").fetchone()

    assert plan is not None
    [[explained]] = plan
    assert explained["Plan"]["Actual Rows"] == 1
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 100, explained
