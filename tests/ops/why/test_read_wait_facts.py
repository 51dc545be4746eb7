"""What is read about turns that wait: the turn that stands for a session, and at most so many turns of a long backlog."""

from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import RELEASE
from tests.statements.plans.touched import execute, prepare
from tests.support.claims import claim_sessions, settle_one
from tests.support.row_locks import rows_locked
from tests.support.tampered_turns import make_pending, tamper
from tests.support.waiting_turns import make_scheduled
from turnstile.backends.postgres.database import Database, Parameters, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.ops.why.read_wait_facts import OLDER, ROW_LOCKS, KnownSession, find_session, read_wait_facts
from turnstile.ops.why.wait_facts import MAX_OLDER_TURNS

BACKLOG: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id, created_at)
SELECT gen_random_uuid(), 't', 'older' || g, 1, (ARRAY[%(queue)s, 'b', 'c'])[1 + g %% 3], 'PENDING', now(), now(), md5(g::text),
       's', now() - interval '1 h' + make_interval(secs => g / 10.0)
  FROM generate_series(1, 9000) g
"""


class Recording(Database):
    """Takes down the statements that it runs."""

    def __init__(self, place: DatabasePlace) -> None:
        super().__init__(place, "test", size=2)
        self.asked: list[tuple[LiteralString, Parameters]] = []

    async def fetch_pipelined(
        self, statements: Sequence[tuple[LiteralString, Parameters]]
    ) -> list[list[dict[str, Any]]]:
        self.asked += statements
        return await super().fetch_pipelined(statements)


class Releasing(Database):
    """Ends another transaction once its locks have been seen."""

    def __init__(self, place: DatabasePlace, transaction: psycopg.Connection) -> None:
        super().__init__(place, "test", size=2)
        self._transaction = transaction

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[dict[str, Any]]:
        rows = await super().fetch(statement, parameters)
        if statement == ROW_LOCKS:
            self._transaction.rollback()
        return rows


async def test_a_head_stands_for_its_session_then_the_next_scheduled_turn_then_the_last_one(
    database: Database, settings: Settings
) -> None:
    async def stands() -> KnownSession | None:
        return await find_session(database, "t", "s")

    nobody = await stands()
    head = await make_pending(database, settings)
    later, _ = [await make_scheduled(database, settings) for _ in range(2)]
    with_head = await stands()
    await settle_one(database, settings, *await claim_sessions(database, settings, "s"))
    without_head = await stands()
    await tamper(settings, "DELETE FROM turns WHERE seq IS NULL")
    at_rest = await stands()
    await tamper(settings, "DELETE FROM turns")

    assert nobody is None
    assert [with_head, without_head, at_rest] == [KnownSession(which, None) for which in (head, later, head)]
    assert await stands() == KnownSession(None, None)


async def test_the_hand_backs_of_a_running_turn_are_counted(database: Database, settings: Settings) -> None:
    turn = await make_pending(database, settings)
    for _ in range(2):
        await settle_one(database, settings, *await claim_sessions(database, settings, "s"), RELEASE)
    await claim_sessions(database, settings, "s")

    assert (await read_wait_facts(database, [turn]))[turn].turn.hand_backs == 2


async def test_unknown_turns_are_left_out(database: Database, settings: Settings) -> None:
    turn = await make_pending(database, settings)

    assert (await read_wait_facts(database, [turn, uuid4()])).keys() == {turn}
    assert await read_wait_facts(database, []) == {}


async def test_a_transaction_that_ends_within_a_moment_locks_nothing(database: Database, settings: Settings) -> None:
    turn = await make_pending(database, settings)

    with rows_locked(settings) as transaction:
        stays = (await read_wait_facts(database, [turn]))[turn].row_lock
        async with Releasing(settings.database, transaction) as releasing:
            ends = (await read_wait_facts(releasing, [turn]))[turn].row_lock

    assert stays is not None
    assert ends is None


@pytest.mark.parametrize("behind", [False, True], ids=["head", "behind its head"])
async def test_of_a_long_backlog_only_as_many_older_turns_are_read_as_are_counted(
    database: Database, settings: Settings, behind: bool
) -> None:
    turns = [await make_pending(database, settings) for _ in range(2)]
    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(BACKLOG, {"queue": settings.queue})
        connection.execute("VACUUM ANALYZE turns")
    async with Recording(settings.database) as recording:
        facts = await read_wait_facts(recording, [turns[behind]])
        *first, (statement, parameters) = recording.asked[1:]
    with psycopg.connect(conninfo(settings.database, "test")) as connection:
        for before, given in first:
            connection.execute(before, given)
        prepare(connection, "older", OLDER)
        touched = execute(connection, "older", statement, parameters)

    assert (statement, facts[turns[behind]].queue.older_turn_count) == (OLDER, MAX_OLDER_TURNS)
    assert touched.rows <= MAX_OLDER_TURNS, touched
