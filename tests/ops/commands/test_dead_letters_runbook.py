"""Each command line of the runbook about dead letters runs, as it stands there."""

import re
import shlex
from pathlib import Path
from uuid import UUID

import pytest

from tests.conftest import ROOT, sqs_client
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues

RUNBOOK = ROOT / "docs" / "runbooks" / "dead-letters.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCK.findall(RUNBOOK.read_text("utf-8")) for line in block.splitlines()]
ASKS = ({"redrive"}, {"dlq", "drop"})
FINDS_SOMETHING = 5
"""The exit code of a doctor that has looked at everything."""


def test_the_runbook_has_command_lines() -> None:
    assert len(LINES) > 10
    assert all(line.startswith("turnstile ") for line in LINES)


@pytest.mark.parametrize("line", LINES)
async def test_a_command_line_of_the_runbook_runs(
    turnstile: Turnstile,
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
) -> None:
    failed: UUID
    failed, _ = await make_dead(database, queues, settings, ["a", "b"], error_class="timeout")
    address = await queues.find(settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody="not ours")
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(line, comments=True)
    meant = {"TURN": str(failed), "turns": settings.queue}
    words = [meant.get(word, word) for word in words]
    text = ""
    if "<" in words:
        words, text = words[: words.index("<")], f"{failed}\n"
    if any(asks <= {*words} for asks in ASKS) and not {"--yes", "--dry-run"} & {*words}:
        words.append("--yes")

    ran = await turnstile(*words, text=text)

    assert ran.code in ({0, FINDS_SOMETHING} if words == ["doctor"] else {0}), ran.err
    assert ran.out or ran.err
