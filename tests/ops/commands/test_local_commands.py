"""`turnstile local` and `turnstile up` as processes: from nothing to an answered turn, and back."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.support.probes import wait_until
from turnstile.ops.dev.stack.stack import LocalStack, down

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")

SECONDS = 60.0


@pytest.fixture
def shell() -> dict[str, str]:
    """The environment of a shell that knows nothing of any stack."""
    known = ("TURNSTILE_", "DATABASE_URL", "REDIS_URL", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(known)}


def turnstile(shell: dict[str, str], *arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "turnstile.ops.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS * 2,
        env=shell,
        cwd=folder,
    )


def evaluated(shell: dict[str, str], script: str) -> dict[str, str]:
    """The environment of a shell that has run the script."""
    dump = f"{script}\n{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    ran = subprocess.run(["sh", "-c", dump], capture_output=True, text=True, check=True, env=shell)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def test_from_nothing_to_a_stack_with_tables_and_queues_and_back(shell: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "it's home"
    shell["TURNSTILE_HOME"] = str(home)
    try:
        up = turnstile(shell, "local", "up")
        other = evaluated(shell, turnstile(shell, "local", "env").stdout)
        status = turnstile(shell, "local", "status", "--json")
        turns = turnstile(other, "list", "--json")
        letters = turnstile(other, "dlq", "list", "--json")
        stopped = turnstile(shell, "local", "down")
        after = turnstile(shell, "local", "status", "--json")
        purged = turnstile(shell, "local", "down", "--purge")
    finally:
        down(home, purge=True)

    assert (up.returncode, up.stdout) == (0, "")
    assert "turnstile local env" in up.stderr
    assert "turnstile worker --handler turnstile.examples.eliza:respond" in up.stderr
    assert other["TURNSTILE_HOME"] == str(home)
    # What an idle worker's stop waits for.
    assert other["TURNSTILE_RECEIVE_WAIT_SECONDS"] == "1"
    assert json.loads(status.stdout)["running"] is True
    assert {service["name"] for service in json.loads(status.stdout)["services"]} == {"postgres", "redis", "sqs"}
    assert json.loads(turns.stdout) == {"turns": []}
    assert json.loads(letters.stdout)["queues"] == [{"queue": "turns", "messages": 0}]
    assert (stopped.returncode, after.returncode, purged.returncode) == (0, 1, 0)
    assert not home.exists()


class Foreground:
    """`turnstile up`, its messages in a file."""

    def __init__(self, shell: dict[str, str], home: Path, folder: Path) -> None:
        self._messages = folder / "messages"
        with self._messages.open("wb") as messages, (folder / "logs").open("wb") as logs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "turnstile.ops.cli", "up", "--home", str(home), "--concurrency", "4"],
                stdin=subprocess.DEVNULL,
                stdout=logs,
                stderr=messages,
                env=shell,
            )

    def messages(self) -> str:
        return self._messages.read_text()

    def children(self) -> dict[str, psutil.Process]:
        return {child.cmdline()[3]: child for child in psutil.Process(self.process.pid).children()}

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, within=SECONDS)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.messages()
        return "Ctrl-C stops" in self.messages()


@pytest.fixture
def foreground(shell: dict[str, str], stack: LocalStack, tmp_path: Path) -> Iterator[Foreground]:
    running = Foreground(shell, stack.home, tmp_path)
    running.wait_until_ready()
    children = list(running.children().values())
    yield running
    for process in [*children, psutil.Process(running.process.pid)] if running.process.poll() is None else children:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    running.process.wait()


def test_up_answers_the_line_it_prints_and_ends_cleanly_with_ctrl_c(
    foreground: Foreground, shell: dict[str, str]
) -> None:
    messages = foreground.messages()
    curl = re.search(r"curl -s (\S+) -H '(Authorization: Bearer \S+)'", messages)
    other = re.search(
        r"TURNSTILE_API_URL=(\S+) TURNSTILE_API_KEY=(\S+) turnstile submit alice 'Good morning' --wait", messages
    )
    assert curl is not None
    assert other is not None
    children = foreground.children()
    reached = {**shell, "TURNSTILE_API_URL": other[1], "TURNSTILE_API_KEY": other[2]}

    answered = turnstile(reached, "submit", "alice", "Good morning", "--wait")
    scheduled = turnstile(reached, "submit", "alice", "later", "--execute-at", "2000-01-01T00:00:00Z", "--json")
    refused = turnstile({**reached, "TURNSTILE_API_KEY": "wrong-key"}, "submit", "alice", "x")
    unknown = turnstile(reached, "submit", "alice", "x", "--queue", "nope")
    foreground.process.send_signal(signal.SIGINT)
    code = foreground.process.wait(SECONDS)

    assert (answered.returncode, answered.stderr) == (0, "")
    assert answered.stdout.strip()
    assert json.loads(scheduled.stdout)["status"] == "PENDING"
    assert (refused.returncode, unknown.returncode) == (2, 3)
    assert sorted(children) == ["api", "worker"]
    assert code == 0, foreground.messages()
    assert not any(child.is_running() for child in children.values())


def test_the_api_and_the_commands_without_it_mean_the_same_tenant(
    foreground: Foreground, shell: dict[str, str], stack: LocalStack
) -> None:
    local = evaluated(shell, turnstile(shell, "local", "env", "--home", str(stack.home)).stdout)
    [url] = re.findall(r"TURNSTILE_API_URL=(\S+)", foreground.messages())
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    turnstile({**local, "TURNSTILE_API_URL": url}, "submit", "carol", "by the API", "--execute-at", tomorrow)
    turnstile(local, "submit", "carol", "without it", "--direct", "--execute-at", tomorrow)
    listed = turnstile(local, "list", "--session", "carol", "--json")
    canceled = turnstile(local, "cancel", "--session", "carol", "--json")

    assert [turn["tenant_id"] for turn in json.loads(listed.stdout)["turns"]] == ["default", "default"]
    assert json.loads(canceled.stdout)["canceled"] == 2


def test_up_says_which_child_died_and_stops_the_other(foreground: Foreground) -> None:
    children = foreground.children()
    children["worker"].kill()

    code = foreground.process.wait(SECONDS)

    assert code == 1
    assert "the worker ended" in foreground.messages()
    assert not children["api"].is_running()
