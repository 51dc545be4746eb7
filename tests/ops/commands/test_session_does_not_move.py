"""The runbook of a session that does not move: each of its command lines runs, and it explains every reason."""

import re
from typing import get_args
from uuid import UUID

from tests.conftest import ROOT
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_failed
from tests.support.tampered_turns import make_running
from tests.support.waiting_turns import RETRIED, make_settled, make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.command_line import COMMANDS
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.waiting.reason import Reason, code_of
from turnstile.statements.wake_turn import NotWoken

PAGE = (ROOT / "docs" / "runbooks" / "session-does-not-move.md").read_text()


def steps() -> list[str]:
    """The command lines of the page, in their order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


async def test_each_step_runs(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await make_worker(database, settings)
    turn = await make_settled(database, settings, "alice", RETRIED)
    running = await make_running(database, settings, "running")
    [failed] = await make_failed(database, settings, ["halted"], halt=True)
    names: dict[str, str | UUID] = {
        "TURN": turn, "SESSION": "alice", "TENANT": "t", "QUEUE": settings.queue, "RUNNING": running, "FAILED": failed,
    }  # fmt: skip

    for step in steps():
        program, *words = step.split()
        ran = await turnstile(*(str(names.get(word, word)) for word in words))

        # The doctor tells what it finds.
        allowed = {ExitCode.OK, ExitCode.FINDINGS} if words == ["doctor"] else {ExitCode.OK}
        assert (program, ran.code in allowed) == ("turnstile", True), (step, ran.err)


def test_the_page_explains_every_reason() -> None:
    explained = re.findall(r"`([a-z-]+)`", "\n".join(re.findall(r"^\| (`[a-z-`, ]+) \|", PAGE, re.MULTILINE)))

    assert len(explained) == len(set(explained))
    assert set(explained) == {code_of(one) for one in get_args(Reason)}


def test_the_page_explains_every_refusal_of_a_wake() -> None:
    assert [why for why in NotWoken if why.value not in PAGE] == []


def test_the_page_names_no_command_that_does_not_exist() -> None:
    named = set(re.findall(r"`?turnstile ([a-z]+)", PAGE))

    assert named <= {*COMMANDS}
    assert {"why", "wake", "sessions"} <= named
