"""`turnstile local` and `turnstile up`: from nothing to an answered turn, and back."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.dev.shells import path_without_the_program
from tests.ops.invoke import invoke
from tests.support.probes import wait_until
from turnstile.dev.home import program_name
from turnstile.dev.stack.stack import LocalStack, down

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")

SECONDS = 60.0


@pytest.fixture(autouse=True)
def _shell() -> Iterator[None]:
    """The environment of a shell that knows nothing of any stack. `local up` changes that of its own process."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("TURNSTILE_", "DATABASE_URL", "REDIS_URL", "AWS_")):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


def evaluated(script: str) -> dict[str, str]:
    """The environment of a shell that has run the script."""
    dump = f"{script}\n{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    ran = subprocess.run(["sh", "-c", dump], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def test_from_nothing_to_a_stack_with_tables_and_queues_and_back(tmp_path: Path) -> None:
    home = tmp_path / "it's home"
    shell = {"TURNSTILE_HOME": str(home)}
    try:
        named = invoke("local", "up", "--home", str(home))
        up = invoke("local", "up", **shell)
        other = evaluated(invoke("local", "env", **shell).out)
        status = invoke("local", "status", "--json", **shell)
        turns = invoke("list", "--json", **other)
        letters = invoke("dlq", "list", "--json", **other)
        with psycopg.connect(other["DATABASE_URL"]) as application:
            [made_in] = application.execute("SELECT current_schema()::text").fetchone() or [None]
        stopped = invoke("local", "down", **shell)
        after = invoke("local", "status", "--json", **shell)
        purged = invoke("local", "down", "--purge", **shell)
    finally:
        down(home, purge=True)

    assert (up.code, up.out) == (0, "")
    # The hint works as it stands, in a shell that knows the home and in one that does not.
    assert hinted(up.err) == f'eval "$({program_name()} local env)"'
    assert hinted(named.err) == f'eval "$({program_name()} local env --home {shlex.quote(str(home))})"'
    assert f"{program_name()} worker --handler turnstile.examples.eliza:respond" in up.err
    assert other["TURNSTILE_HOME"] == str(home)
    # An idle worker's stop waits so long.
    assert other["TURNSTILE_RECEIVE_WAIT_SECONDS"] == "1"
    assert json.loads(status.out)["running"] is True
    assert {service["name"] for service in json.loads(status.out)["services"]} == {"postgres", "redis", "sqs"}
    assert json.loads(turns.out) == {"turns": []}
    assert json.loads(letters.out)["queues"] == [{"queue": "turns", "messages": 0}]
    assert (stopped.code, after.code, purged.code) == (0, 1, 0)
    assert not home.exists()
    # Not where Turnstile's tables are, though the role is called like their schema.
    assert made_in == "public"


def hinted(messages: str) -> str:
    """The line that points a shell at the stack."""
    [line] = [line.strip() for line in messages.splitlines() if "eval" in line]
    return line


class Foreground:
    """`turnstile up`, its messages in a file."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._messages = folder / "messages"
        self._mark = str(folder)
        with self._messages.open("wb") as messages, (folder / "logs").open("wb") as logs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "turnstile.ops.main", "up", "--home", str(home)],
                stdin=subprocess.DEVNULL,
                stdout=logs,
                stderr=messages,
                env={**os.environ, "STARTED_BY": self._mark},
                # A shell without job control starts what it runs in the background with SIGINT ignored, and that is inherited.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )

    def messages(self) -> str:
        return self._messages.read_text()

    def children(self) -> dict[str, psutil.Process]:
        return {child.cmdline()[3]: child for child in psutil.Process(self.process.pid).children()}

    def left_behind(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                # The stack may have started in it, and outlives it.
                ours = process.environ().get("STARTED_BY") == self._mark
                found += [process] if ours and "turnstile.ops.main" in process.cmdline() else []
        return found

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.messages()
        return "Ctrl-C stops" in self.messages()


@pytest.mark.long
def test_signals_while_up_starts_its_children_leave_none_behind(stack: LocalStack, tmp_path: Path) -> None:
    starting = Foreground(stack.home, tmp_path)
    wait_until(starting.children, within=SECONDS, every=0.001)
    starting.process.send_signal(signal.SIGTERM)
    starting.process.send_signal(signal.SIGHUP)
    wait_until(lambda: starting.process.poll() is not None, within=SECONDS)

    assert starting.process.returncode == 0, starting.messages()
    assert starting.left_behind() == []


@pytest.fixture
def foreground(stack: LocalStack, tmp_path: Path) -> Iterator[Foreground]:
    running = Foreground(stack.home, tmp_path)
    wait_until(running.is_ready, within=SECONDS)
    children = list(running.children().values())
    yield running
    for process in [*children, psutil.Process(running.process.pid)] if running.process.poll() is None else children:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    running.process.wait()


@pytest.mark.long
def test_up_answers_the_line_it_prints_and_ends_cleanly_with_ctrl_c(foreground: Foreground, stack: LocalStack) -> None:
    printed = re.search(
        r"TURNSTILE_API_URL=(\S+) TURNSTILE_API_KEY=(\S+) \S+ submit chat-1 'Good morning' --wait 60",
        foreground.messages(),
    )
    assert printed
    children = foreground.children()
    reached = {"TURNSTILE_API_URL": printed[1], "TURNSTILE_API_KEY": printed[2]}
    local = evaluated(invoke("local", "env", "--home", str(stack.home)).out) | reached
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    answered = invoke("submit", "alice", "Good morning", "--wait", "60", **reached)
    scheduled = invoke("submit", "alice", "later", "--execute-at", "2000-01-01T00:00:00Z", "--json", **reached)
    refused = invoke("submit", "alice", "x", **{**reached, "TURNSTILE_API_KEY": "wrong-key"})
    unknown = invoke("submit", "alice", "x", "--queue", "nope", **reached)
    # The API and the commands without it use the same tenant.
    invoke("submit", "carol", "by the API", "--execute-at", tomorrow, **reached)
    invoke("submit", "carol", "without it", "--direct", "--execute-at", tomorrow, **local)
    canceled = invoke("cancel", "--session", "carol", "--yes", "--json", **local)
    foreground.process.send_signal(signal.SIGINT)
    code = foreground.process.wait(SECONDS)

    assert (answered.code, answered.err) == (0, "")
    assert answered.out.strip()
    assert json.loads(scheduled.out)["status"] == "PENDING"
    assert (refused.code, unknown.code) == (2, 3)
    assert json.loads(canceled.out)["canceled"] == 2
    assert sorted(children) == ["api", "worker"]
    assert code == 0, foreground.messages()
    assert f"turnstile local down --home {stack.home}" in foreground.messages()
    assert not any(child.is_running() for child in children.values())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, as who copies its lines does")
def test_the_lines_that_up_prints_work_in_a_plain_shell(foreground: Foreground) -> None:
    plain = {**os.environ, "PATH": os.pathsep.join(path_without_the_program())}
    lines = [line.strip() for line in foreground.messages().splitlines() if line.startswith("  ")]

    submit, events, command = [
        subprocess.run(
            ["sh", "-c", line], env=plain, capture_output=True, text=True, timeout=SECONDS, check=True
        ).stdout
        for line in lines
    ]

    turn = json.loads(submit)
    assert (turn["status"], bool(turn["output"])) == ("SUCCEEDED", True)
    assert events.count("event: end") == 1
    assert json.dumps(turn["output"], ensure_ascii=False) in events
    assert command.strip()


@pytest.mark.long
def test_up_says_which_child_died_and_stops_the_other(foreground: Foreground) -> None:
    children = foreground.children()
    children["worker"].kill()

    code = foreground.process.wait(SECONDS)

    assert code == 1
    assert "the worker ended" in foreground.messages()
    assert not children["api"].is_running()
