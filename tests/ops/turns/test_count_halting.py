"""The count of the FAILED turns that the list of dead letters leaves out, because they halt their session."""

from typing import Any, LiteralString

import psycopg

from tests.ops.dead_turns import make_failed
from tests.statements.calls import FAILURE
from tests.statements.plans.touched import execute, prepare
from tests.support.claims import claim_sessions, settle_one
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database, Parameters, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.failed_turns import FailedFilter, count_halting
from turnstile.statements.revive import revive
from turnstile.statements.submit import ParentClaim, submit
from turnstile.turn.identifiers import TraceContext


async def test_turns_that_halt_their_session_are_counted_by_the_filter_of_the_list(
    database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    await make_failed(database, settings, ["c", "d"], halt=True)
    await make_failed(database, settings, ["e"], halt=True, tenant_id="u", error_class="KeyError", queue="strict")

    counts = [
        await count_halting(database, FailedFilter(**wanted))
        for wanted in (
            {}, {"tenant_id": "t"}, {"session_id": "c"}, {"session_id": "a"}, {"error_class": "KeyError"}, {"queue": "strict"},
            {"older_than_seconds": 60.0}, {"younger_than_seconds": 60.0}, {"trace_id": "0" * 32},
        )
    ]  # fmt: skip

    assert counts == [3, 2, 1, 0, 1, 1, 0, 3, 0]


async def test_a_child_that_was_started_again_does_not_count_though_it_halts_its_session(
    database: Database, settings: Settings
) -> None:
    parent = make_submission(settings.queue, "parent")
    await submit(database, [parent], resend_seconds=60.0)
    [turn] = await claim_sessions(database, settings, "parent")
    child = make_submission(settings.queue, "child", parent=ParentClaim(turn.id, turn.fence, "dig"))
    await submit(database, [child], resend_seconds=60.0)
    for failing in (*await claim_sessions(database, settings, "child"), turn):
        await settle_one(database, settings, failing, FAILURE)
    await database.fetch("UPDATE sessions SET halted_by = %(id)s WHERE session_id = 'child'", {"id": child.turn_id})
    before = await count_halting(database, FailedFilter())

    trace = TraceContext("0" * 32, "0" * 16)
    await revive(database, [(parent.turn_id, 1)], [trace], expires_in_seconds=[60.0], resend_seconds=60.0)
    [again] = await claim_sessions(database, settings, "parent")
    successor = make_submission(settings.queue, "child", parent=ParentClaim(again.id, again.fence, "dig"))
    await submit(database, [successor], resend_seconds=60.0)

    assert (before, await count_halting(database, FailedFilter())) == (1, 0)


FEW, MANY = 30, 2000

CROWD: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, error_class, finished_at, send_at, expires_at, trace_id,
                   span_id)
SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'FAILED', 'ValueError', now(), now(), now(), md5(g::text), 's'
  FROM generate_series(1, %(many)s) g
"""

SESSIONS: LiteralString = """
INSERT INTO sessions (tenant_id, session_id, last_seq, halted_by)
SELECT tenant_id, session_id, 1, CASE WHEN session_id IN ('s1', 's2', 's3') THEN id END FROM turns
"""


class Asked:
    """Takes down the statement that runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.statements: list[tuple[LiteralString, Parameters]] = []

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[Any]:
        self.statements.append((statement, parameters))
        return await self._database.fetch(statement, parameters)


async def test_the_count_reads_only_the_turns_that_halt(database: Database, settings: Settings) -> None:
    asked = Asked(database)
    stand_in: Any = asked
    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(CROWD, {"many": MANY})
        connection.execute(SESSIONS)
        # Not of turns: with their statistics the planner would find the way by itself.
        connection.execute("ANALYZE sessions")
        for wanted in (
            {"queue": "turns"},
            {"tenant_id": "t", "error_class": "ValueError"},
            {"younger_than_seconds": 60.0},
        ):
            assert await count_halting(stand_in, FailedFilter(**wanted)) == 3

        for place, (statement, parameters) in enumerate(asked.statements):
            prepare(connection, f"counted_{place}", statement)
            touched = execute(connection, f"counted_{place}", statement, parameters)
            # Not exactly three: the index may still have the entries of deleted rows.
            assert touched.rows < FEW, touched
