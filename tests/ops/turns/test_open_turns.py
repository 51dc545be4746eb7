"""Open turns by filter, for a cancel of many: which, and by which indexes."""

from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest

from tests.support.claims import claim_sessions, fail_next, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database, Parameters, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.turns.open_turns import OpenFilter, list_open
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus

ENDED: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, finished_at, send_at, expires_at, trace_id, span_id)
SELECT gen_random_uuid(), 't', 'o' || g, 1, 'q', CASE WHEN g <= 5000 THEN 'SUCCEEDED' ELSE 'PENDING' END,
       CASE WHEN g <= 5000 THEN now() END, CASE WHEN g > 5000 THEN now() END, now(), md5(g::text), 's'
  FROM generate_series(1, 5020) g
"""


async def test_running_waiting_and_scheduled_turns_are_listed_oldest_first_without_compensations(
    database: Database, settings: Settings
) -> None:
    running, waiting = await submit_turns(database, settings, "one", "two")
    await claim_sessions(database, settings, "s")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    scheduled = make_submission(settings.queue, "later", execute_at=tomorrow)
    await submit(database, [scheduled], resend_seconds=60)
    await submit_turns(database, settings, "bad", session_id="f")
    await fail_next(database, settings, "f", halt=False, compensates=True)

    async def listed(**wanted: Any) -> list[Any]:
        return [(turn.id, turn.status.value) for turn in await list_open(database, OpenFilter(**wanted))]

    every = [(running, "RUNNING"), (waiting, "PENDING"), (scheduled.turn_id, "PENDING")]
    assert await listed() == every
    assert await listed(status=TurnStatus.PENDING) == every[1:]
    assert await listed(status=TurnStatus.RUNNING) == every[:1]
    assert await listed(session_id="later", tenant_id="t", queue=settings.queue) == every[2:]
    assert await listed(queue="another") == []
    assert await listed(older_than_seconds=60.0) == []
    assert [turn.id for turn in await list_open(database, OpenFilter(), limit=1)] == [running]


class Asked:
    """Takes down the statement instead of running it."""

    statement: LiteralString = ""
    parameters: Parameters = {}  # noqa: RUF012 - replaced, never changed

    async def fetch(self, statement: LiteralString, parameters: Parameters) -> list[Any]:
        self.statement, self.parameters = statement, parameters
        return []


@pytest.mark.parametrize("wanted", [{}, {"tenant_id": "t"}, {"queue": "q"}, {"session_id": "o5001"}], ids=str)
async def test_ended_turns_are_not_read(settings: Settings, wanted: dict[str, str]) -> None:
    asked: Any = Asked()
    await list_open(asked, OpenFilter(**wanted))  # type: ignore[arg-type]

    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(ENDED)
        connection.execute("ANALYZE turns")
        plan = connection.execute(f"EXPLAIN (COSTS OFF) {asked.statement}", asked.parameters).fetchall()

    text = "\n".join(line for (line,) in plan)
    assert "Seq Scan" not in text, text
    assert "turns_tenant_created" not in text, text
