"""Lists of open turns use the indexes of open turns, however many turns have ended."""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from tests.statements.plans.touched import execute, prepare
from turnstile.backends.postgres.database import Parameters, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.turns.operator_lists import OperatorFilter, list_turns_of_all
from turnstile.queries.turn_lists import TurnFilter, list_page
from turnstile.turn.status import TurnStatus

ENDED: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, finished_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'o' || g, 1, 'q', 'SUCCEEDED', now(), now(), md5(g::text), 's' FROM generate_series(1, 5000) g
"""

WAITING: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'w' || g, CASE WHEN g <= 5 THEN 1 END, 'q', 'PENDING', now(), now(), md5(g::text), 's'
  FROM generate_series(1, 10) g
"""


@pytest.fixture
def crowded(settings: Settings) -> Iterator[psycopg.Connection]:
    """5,000 turns of a tenant have ended; five wait, and five are scheduled."""
    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(ENDED)
        connection.execute(WAITING)
        connection.execute("ANALYZE turns")
        yield connection


class Asked:
    """Takes down the statements instead of running them."""

    def __init__(self) -> None:
        self.statements: list[tuple[LiteralString, Parameters]] = []

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[Any]:
        self.statements.append((statement, parameters))
        return []


async def test_a_list_of_open_turns_does_not_read_ended_turns(crowded: psycopg.Connection) -> None:
    for status, indexes in (
        (TurnStatus.PENDING, {"turns_open", "turns_scheduled"}),
        (TurnStatus.RUNNING, {"turns_running"}),
    ):
        for limit in (20, 100):
            asked = Asked()
            database: Any = asked
            await list_page(database, TurnFilter(tenant_id="t", status=status), limit=limit)
            wanted = OperatorFilter(tenant_id="t", status=status)
            assert await list_turns_of_all(database, wanted, limit) == []

            assert len(asked.statements) == 2
            for statement, parameters in asked.statements:
                plan = crowded.execute(f"EXPLAIN (COSTS OFF) {statement}", parameters).fetchall()
                text = "\n".join(line for (line,) in plan)
                assert {index for index in indexes if index in text} == indexes, text
                assert "turns_tenant_created" not in text, text


async def test_the_turns_that_a_tenant_submitted_last_are_read_in_their_index(crowded: psycopg.Connection) -> None:
    for wanted in (
        OperatorFilter(tenant_id="t"),
        OperatorFilter(tenant_id="t", since_seconds=3600.0),
        OperatorFilter(tenant_id="t", until_seconds=0.0),
    ):
        asked = Asked()
        database: Any = asked
        assert await list_turns_of_all(database, wanted, 20) == []
        [(statement, parameters)] = asked.statements
        prepare(crowded, "list", statement)

        touched = execute(crowded, "list", statement, parameters)
        crowded.execute("DEALLOCATE list")

        assert touched.rows <= 20, touched
