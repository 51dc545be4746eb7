"""The record of an audit event: a row and a log line."""

from typing import Any, LiteralString

import psycopg
import pytest
from structlog.testing import capture_logs

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import change_and_record, record, record_alone
from turnstile.backends.postgres.database import Database

PAUSED = AuditEvent(
    kind=AuditKind.QUEUE_PAUSED,
    actor="alice@ops",
    subject="queue turns",
    tenant_id="acme",
    counts={"due": 3},
    reason="the model is away",
)


async def rows(database: Database) -> list[dict[str, Any]]:
    return await database.fetch("SELECT kind, actor, tenant_id, subject, counts, reason FROM audit ORDER BY id", {})


async def test_an_event_is_a_row_with_all_its_fields(database: Database) -> None:
    await record_alone(database, PAUSED)

    assert await rows(database) == [
        {
            "kind": "queue.paused",
            "actor": "alice@ops",
            "tenant_id": "acme",
            "subject": "queue turns",
            "counts": {"due": 3},
            "reason": "the model is away",
        }
    ]


async def test_the_row_commits_with_its_act(database: Database) -> None:
    async with database.connection() as connection, connection.transaction():
        await connection.execute("INSERT INTO paused_queues (queue, paused_by) VALUES ('turns', 'alice@ops')")
        await record(connection, PAUSED)

    assert len(await rows(database)) == 1


async def fail_after_the_record(database: Database) -> None:
    async with database.connection() as connection, connection.transaction():
        await record(connection, PAUSED)
        await connection.execute("SELECT 1 / 0")


async def test_the_row_is_rolled_back_with_its_act(database: Database) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail_after_the_record(database)

    assert await rows(database) == []


async def test_an_event_is_a_log_line(database: Database) -> None:
    with capture_logs() as lines:
        await record_alone(database, PAUSED)

    [line] = lines
    assert (line["event"], line["kind"], line["actor"], line["counts"]) == (
        "audit.recorded",
        "queue.paused",
        "alice@ops",
        {"due": 3},
    )


async def test_a_change_and_its_event_are_one_commit_and_no_change_leaves_none(database: Database) -> None:
    statement: LiteralString = "DELETE FROM paused_queues WHERE queue = %(queue)s RETURNING paused_by"
    await database.fetch("INSERT INTO paused_queues (queue, paused_by) VALUES ('turns', 'ada')", {})

    def event(row: dict[str, Any]) -> AuditEvent:
        return AuditEvent(kind=AuditKind.QUEUE_RESUMED, actor="bob@ops", subject=f"pause of {row['paused_by']}")

    changed = await change_and_record(database, statement, {"queue": "turns"}, event)
    again = await change_and_record(database, statement, {"queue": "turns"}, event)

    assert (changed, again) == ({"paused_by": "ada"}, None)
    assert [row["subject"] for row in await rows(database)] == ["pause of ada"]
