"""What operators do leaves an audit event, which names them and has no content."""

import json
import re
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed
from tests.ops.invoke import NOBODY, invoke_plain
from tests.support.claims import submit_turns
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import MARKED_AS_LOST, make_running, tamper
from tests.support.waiting_turns import RETRIED, make_settled
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues

ADA = {"TURNSTILE_OPERATOR": "ada@desk"}
CANARY = "canary-1f0e"
"""What a user said."""

Event = tuple[str, str | None, str, dict[str, int]]
"""Kind, tenant, subject, counts."""


async def recorded(database: Database) -> list[Event]:
    """The events, oldest first. All are Ada's, and none has what was said."""
    rows = await database.fetch("SELECT * FROM audit ORDER BY id", {})
    assert {row["actor"] for row in rows} <= {"ada@desk"}
    assert CANARY not in str(rows)
    return [(row["kind"], row["tenant_id"], row["subject"], row["counts"]) for row in rows]


async def say(database: Database, settings: Settings) -> UUID:
    (turn,) = await submit_turns(database, settings, CANARY, session_id="a")
    return turn


async def put_malformed(queues: MessageQueues, settings: Settings, stack: Stack) -> None:
    address = await queues.find(settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=CANARY)


@pytest.mark.parametrize("command", ["status", "dlq show"])
async def test_a_read_of_what_was_said(
    turnstile: Turnstile, database: Database, settings: Settings, command: str
) -> None:
    turn = await say(database, settings)

    ran = await turnstile(*command.split(), str(turn), "--show-text", **ADA)

    assert CANARY in ran.out
    assert await recorded(database) == [("text.read", "t", f"turn {turn}", {"turns": 1})]


@pytest.mark.parametrize("command", ["status", "dlq show"])
async def test_a_look_without_what_was_said_leaves_none(
    turnstile: Turnstile, database: Database, settings: Settings, command: str
) -> None:
    turn = await say(database, settings)

    ran = await turnstile(*command.split(), str(turn), "--json", **ADA)

    assert (ran.code, CANARY in ran.out) == (0, False)
    assert await recorded(database) == []


async def test_what_was_said_is_not_shown_if_the_event_can_not_be_recorded(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn = await say(database, settings)
    await database.fetch("ALTER TABLE audit RENAME TO gone", {})

    ran = await turnstile("status", str(turn), "--show-text", **ADA)

    assert (ran.code, ran.out) != (0, "")
    assert CANARY not in ran.out + ran.err


async def test_an_export_with_what_was_said_has_an_event_for_each_tenant(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    await database.fetch("UPDATE turns SET tenant_id = 'u' WHERE session_id = 'b'", {})

    await turnstile("dlq", "export", "-", **ADA)
    await turnstile("dlq", "export", "-", "--show-text", "--error", "ValueError", **ADA)

    assert sorted(await recorded(database)) == [
        ("text.read", "t", "export of FAILED turns", {"turns": 1}),
        ("text.read", "u", "export of FAILED turns", {"turns": 1}),
    ]


@pytest.mark.parametrize("line", ["dlq list --messages --show-text", "dlq export - --malformed --show-text"])
async def test_a_read_of_malformed_messages(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues, stack: Stack, line: str
) -> None:
    await put_malformed(queues, settings, stack)

    ran = await turnstile(*line.split(), **ADA)

    assert CANARY in ran.out
    [(kind, tenant, subject, _)] = await recorded(database)
    assert (kind, tenant) == ("text.read", None)
    assert subject.endswith(f"malformed messages of queue {settings.queue}")


async def test_a_deletion_of_malformed_messages(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues, stack: Stack
) -> None:
    await put_malformed(queues, settings, stack)

    await turnstile("dlq", "drop", "--malformed", "--yes", **ADA)

    subject = f"malformed messages of queue {settings.queue}"
    assert await recorded(database) == [("messages.deleted", None, subject, {"messages": 1})]


async def test_a_redrive_and_a_drop(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])

    await turnstile("dlq", "drop", "--session", "a", "--tenant", "t", "--yes", **ADA)
    await turnstile("redrive", "--session", "b", "--yes", **ADA)

    ids = [row["id"] for row in await database.fetch("SELECT id FROM redrives ORDER BY id", {})]
    assert await recorded(database) == [
        ("turns.dropped", "t", f"redrive {ids[0]}", {"turns": 1}),
        ("turns.redriven", None, f"redrive {ids[1]}", {"turns": 1}),
    ]


@pytest.mark.parametrize(("command", "kind"), [("retry", "turn.retried"), ("skip", "turn.skipped")])
async def test_a_decision_about_a_halted_session(
    turnstile: Turnstile, database: Database, settings: Settings, command: str, kind: str
) -> None:
    (failed,) = await make_failed(database, settings, ["a"], halt=True)

    for _ in range(2):
        await turnstile(command, str(failed), "--yes", **ADA)

    assert await recorded(database) == [(kind, "t", f"turn {failed}", {})]


async def test_a_wake(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    turn = await make_settled(database, settings, "a", RETRIED)

    await turnstile("wake", str(turn), "--dry-run", **ADA)
    await turnstile("wake", NOBODY, "--yes", **ADA)
    assert await recorded(database) == []
    await turnstile("wake", str(turn), "--yes", **ADA)

    assert await recorded(database) == [("turn.woken", "t", f"turn {turn}", {})]


async def test_a_repair(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await make_running(database, settings, "a")
    await tamper(settings, MARKED_AS_LOST)

    await turnstile("doctor", **ADA)
    assert await recorded(database) == []
    await turnstile("doctor", "--fix", "--yes", **ADA)

    assert await recorded(database) == [("findings.repaired", None, "findings of the doctor", {"wake": 1})]


async def test_an_archive(turnstile: Turnstile, database: Database) -> None:
    for last in ("--dry-run", "--yes"):
        await turnstile("archive", "--older-than=90d", "--failed", last, **ADA)

    [(kind, tenant, subject, counts)] = await recorded(database)
    assert (kind, tenant, counts) == ("turns.archived", None, {})
    assert re.fullmatch(r"sessions at rest since \S+ \S+Z, FAILED turns as well", subject)


@pytest.mark.usefixtures("template")
def test_a_migration_and_a_grant(bare_url: str) -> None:
    for _ in range(2):
        invoke_plain("migrate", DATABASE_URL=bare_url, **ADA)
    for words in (["--api", "tested_api"], []):
        invoke_plain("grant", *words, DATABASE_URL=bare_url, **ADA)

    with psycopg.connect(conninfo(DatabasePlace(bare_url), "test")) as connection:
        found = connection.execute("SELECT kind, actor, subject FROM audit ORDER BY id").fetchall()
    assert found == [
        ("tables.migrated", "ada@desk", "the tables, up to 0001"),
        ("roles.granted", "ada@desk", "tested_api: api"),
        ("roles.granted", "ada@desk", "the roles of earlier calls"),
    ]


async def test_a_cancel_of_many_and_of_one(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, CANARY, session_id="a")
    await submit_turns(database, settings, CANARY, session_id="a")
    (other,) = await submit_turns(database, settings, CANARY, session_id="b")
    line = ("cancel", "--session", "a", "--tenant", "t", "--status", "pending")

    await turnstile(*line, "--dry-run", **ADA)
    await turnstile(*line, "--yes", **ADA)
    await turnstile("cancel", str(other), "--yes", **ADA)
    await turnstile("cancel", NOBODY, "--yes", **ADA)

    assert await recorded(database) == [
        ("turns.canceled", "t", "open turns: session a, status PENDING", {"turns": 2}),
        ("turns.canceled", "t", f"turn {other}", {"turns": 1}),
    ]


async def test_a_pause_with_its_reason_and_a_resume(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    for line in ("pause", "pause", "resume", "resume"):
        reason = ("--reason", "the provider is down") if line == "pause" else ()
        await turnstile("queues", line, settings.queue, *reason, "--yes", **ADA)

    subject = f"queue {settings.queue}"
    assert await recorded(database) == [("queue.paused", None, subject, {}), ("queue.resumed", None, subject, {})]
    document: Any = json.loads((await turnstile("audit", "--kind", "queue.paused", "--json")).out)
    assert document["events"][0]["reason"] == "the provider is down"
