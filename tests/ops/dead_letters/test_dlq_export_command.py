"""`turnstile dlq export`: FAILED turns and malformed messages as JSON lines."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues


def parsed(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
async def malformed(queues: MessageQueues, settings: Settings, stack: Stack) -> str:
    """A message on the DLQ that can't be read; its body, which an attribute of it quotes."""
    address = await queues.find(settings.queue)
    quoted = {"quoted": {"DataType": "String", "StringValue": "a canary sings"}}
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody="a canary sings", MessageAttributes=quoted)
    return "a canary sings"


async def test_turns_are_written_with_their_attempts_and_malformed_messages_without_what_was_said(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, malformed: str, tmp_path: Path
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "b"])
    await database.fetch("UPDATE turn_attempts SET traceback = 'Traceback: here'", {})
    file = tmp_path / "dead.jsonl"

    ran = await turnstile("dlq", "export", str(file))

    *turns, message = parsed(file.read_text())
    assert (ran.code, ran.out, ran.err) == (0, "", "2 turns and 1 malformed message written\n")
    assert [(line["kind"], line["turn"]["id"]) for line in turns] == [("turn", str(turn)) for turn in failed]
    [attempt] = turns[0]["attempts"]
    assert (attempt["error_class"], attempt["error"], attempt["traceback"]) == (
        "ValueError", "it would not do", "Traceback: here",
    )  # fmt: skip
    assert (message["kind"], message["queue"]) == ("malformed", settings.queue)
    assert malformed not in file.read_text()
    assert "hello" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Given back, all of them.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 3


async def test_on_request_it_has_what_was_said(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, malformed: str
) -> None:
    await make_dead(database, queues, settings, ["a"])

    turn, message = parsed((await turnstile("dlq", "export", "-", "--show-text")).out)

    assert turn["messages"][0]["content"] == "hello"
    assert message["body"] == message["attributes"]["quoted"] == malformed


@pytest.mark.usefixtures("malformed")
async def test_a_filter_on_turns_leaves_messages_out_and_malformed_leaves_turns_out(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])

    of_session = parsed((await turnstile("dlq", "export", "-", "--session", "b")).out)
    messages = parsed((await turnstile("dlq", "export", "-", "--malformed", "--queue", settings.queue)).out)

    assert [line["turn"]["session_id"] for line in of_session] == ["b"]
    assert [line["kind"] for line in messages] == ["malformed"]


async def test_a_file_that_exists_is_not_overwritten_and_an_unfinished_one_is_removed(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, tmp_path: Path
) -> None:
    await make_dead(database, queues, settings, ["a"])
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("mine")

    kept = await turnstile("dlq", "export", str(old))
    away = await turnstile("dlq", "export", str(new), AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1")

    assert (kept.code, old.read_text()) == (2, "mine")
    assert "nothing was written" in kept.err
    assert (away.code, new.exists()) == (4, False)
