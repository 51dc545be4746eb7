"""Stuck sessions: which they are, since when, and that a large table does not matter."""

from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from tests.ops.dead_turns import make_failed
from tests.statements.plans.touched import execute, prepare
from tests.support.claims import claim_sessions, settle_one
from tests.support.tampered_turns import LOST, make_pending, make_running, tamper
from tests.support.waiting_turns import RETRIED, make_joining, make_scheduled, make_settled
from turnstile.backends.postgres.database import Database, Parameters, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.sessions import stuck_sessions
from turnstile.ops.sessions.stuck_sessions import REACH, StuckSession, find_stuck_sessions, make_statement

AN_HOUR_AGO: LiteralString = """
UPDATE turns SET created_at = created_at - interval '1 h', queued_at = queued_at - interval '1 h',
       execute_at = execute_at - interval '1 h', finished_at = finished_at - interval '1 h'
"""
CROWD: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, finished_at, expires_at, trace_id, span_id, created_at)
SELECT gen_random_uuid(), 't', k.status || g, 1, 'q' || g % 3, k.status, CASE WHEN k.status = 'PENDING' THEN now() END,
       CASE WHEN k.status <> 'PENDING' THEN now() END, now(), md5(g::text), 's', now() - k.age
  FROM (VALUES ('SUCCEEDED', interval '1 d'), ('FAILED', interval '1 d'), ('PENDING', interval '1 h')) k (status, age)
 CROSS JOIN generate_series(1, 3000) g
"""


async def find(
    database: Database,
    *,
    older: float = 300.0,
    limit: int = 100,
    queue: str | None = None,
    tenant_id: str | None = None,
) -> list[StuckSession]:
    return await find_stuck_sessions(database, older_than_seconds=older, limit=limit, queue=queue, tenant_id=tenant_id)


async def ids(database: Database, **how: float) -> set[UUID]:
    return {one.id for one in await find(database, **how)}  # type: ignore[arg-type]


def read_at_most(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each queue, in place of REACH."""

    def make(filters: frozenset[str]) -> str:
        statement = make_statement(filters)
        assert f"LIMIT {REACH})" in statement
        return statement.replace(str(REACH), str(turns))

    monkeypatch.setattr(stuck_sessions, "make_statement", make)


async def test_a_head_that_has_been_due_for_long_is_stuck(database: Database, settings: Settings) -> None:
    old, behind = [await make_pending(database, settings, "old") for _ in range(2)]
    await tamper(settings, AN_HOUR_AGO)
    await make_pending(database, settings, "new")

    [found] = await find(database)

    assert (found.id, found.session_id, found.queue, found.truncated) == (old, "old", settings.queue, False)
    assert found.since is not None
    assert timedelta(minutes=59) < datetime.now(UTC) - found.since < timedelta(minutes=70)
    assert behind != old
    assert await ids(database, older=2 * 3600.0) == set()


async def test_a_head_whose_predecessor_has_just_ended_is_not_stuck(database: Database, settings: Settings) -> None:
    for _ in range(2):
        await make_pending(database, settings)
    await tamper(settings, AN_HOUR_AGO)
    await settle_one(database, settings, *await claim_sessions(database, settings, "s"))

    assert await ids(database) == set()


async def test_turns_behind_a_running_head_and_turns_that_wait_for_a_time_are_not_stuck(
    database: Database, settings: Settings
) -> None:
    await make_running(database, settings)
    await make_pending(database, settings)
    await make_settled(database, settings, "retried", RETRIED)
    parent, child = await make_joining(database, settings, "parent")
    await make_scheduled(database, settings, "scheduled")
    await tamper(settings, AN_HOUR_AGO)
    await tamper(settings, "UPDATE turns SET lease_until = now() + interval '1 h' WHERE status = 'RUNNING'")

    assert await ids(database) == {child}
    assert parent != child


async def test_a_scheduled_turn_that_no_relay_places_is_stuck(database: Database, settings: Settings) -> None:
    turn = await make_scheduled(database, settings)
    await tamper(settings, "UPDATE turns SET execute_at = now() - interval '1 h'")

    assert await ids(database) == {turn}


async def test_a_lease_that_ran_out_and_a_halt_count_at_once(database: Database, settings: Settings) -> None:
    lost = await make_running(database, settings, "lost")
    [halting] = await make_failed(database, settings, ["halted"], halt=True)
    await make_pending(database, settings, "halted")
    await make_pending(database, settings, "lost")
    await tamper(settings, LOST)
    both = await find(database)
    await tamper(settings, "UPDATE turns SET created_at = created_at - interval '1 h' WHERE status = 'PENDING'")

    assert [one.id for one in both] == [lost, halting]
    assert await ids(database) == {lost, halting}


async def test_one_queue_or_all_also_those_that_nobody_declares(database: Database, settings: Settings) -> None:
    turns = {name: await make_pending(database, settings, name) for name in ("a", "b", "c")}
    await tamper(settings, "UPDATE turns SET queue = 'queue-' || session_id")
    await tamper(settings, AN_HOUR_AGO)

    assert await ids(database) == {*turns.values()}
    assert [one.id for one in await find(database, queue="queue-b")] == [turns["b"]]
    assert len(await find(database, limit=2)) == 2


async def test_one_tenant_or_all(database: Database, settings: Settings) -> None:
    await make_pending(database, settings, "due", tenant_id="t")
    await make_running(database, settings, "lost")
    await make_failed(database, settings, ["halted"], halt=True)
    other = await make_pending(database, settings, "due", tenant_id="u")
    await tamper(settings, LOST)
    await tamper(settings, AN_HOUR_AGO)

    assert [one.id for one in await find(database, tenant_id="u")] == [other]
    assert len(await find(database)) == 4


async def test_more_due_turns_than_are_read_are_reported(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await make_pending(database, settings, f"s{number}")
    await tamper(settings, AN_HOUR_AGO)
    read_at_most(3, monkeypatch)

    found = await find(database)

    assert [one.truncated for one in found] == [True, True, True]


class Asked:
    """Takes down the statements of one pipeline instead of running them."""

    def __init__(self) -> None:
        self.statements: list[tuple[LiteralString, Parameters]] = []

    async def fetch_pipelined(self, statements: list[tuple[LiteralString, Parameters]]) -> list[list[Any]]:
        self.statements += statements
        return [[] for _ in statements]


@pytest.mark.parametrize(("named", "queues"), [(None, 3), ("q1", 1)])
async def test_of_a_large_table_only_the_oldest_due_turns_are_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, named: str | None, queues: int
) -> None:
    read_at_most(100, monkeypatch)
    asked = Asked()
    database: Any = asked
    await find(database, limit=10, queue=named)
    with psycopg.connect(conninfo(settings.database, "test")) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(CROWD)
        connection.execute("ANALYZE turns")
        for number, (statement, parameters) in enumerate(asked.statements):
            connection.execute(statement, parameters)
            prepare(connection, f"asked_{number}", statement)
        touched = execute(connection, f"asked_{number}", statement, parameters)

    # Three queues, a thousand due turns each.
    assert touched.rows <= queues * 100, touched
