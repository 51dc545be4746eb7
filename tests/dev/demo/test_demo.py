"""`turnstile demo`, as README has people try it: it ends well, its last line works, and nothing of it stays."""

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.probes import wait_until
from turnstile.dev.stack.ports import choose_free
from turnstile.dev.stack.stack import LocalStack

pytestmark = [pytest.mark.long, pytest.mark.not_on("containers", "it is about the embedded stack")]

SECONDS = 180.0
MARK = "STARTED_BY_TEST_DEMO"


class Running:
    """A command in a shell of its own, which knows nothing of any stack. Its messages go to a file."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "DATABASE_"))}
        self._mark = f"{folder}-{arguments[0]}"
        self._log = folder / f"{arguments[0]}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "turnstile.ops.main", *arguments],
                cwd=folder, env=given | {MARK: self._mark} | variables, stdout=log, stderr=log,
                # A shell without job control starts what it runs in the background with SIGINT ignored, and that is inherited.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip

    def messages(self) -> str:
        return self._log.read_text()

    def says(self, words: str) -> bool:
        assert self.process.poll() is None or words in self.messages(), self.messages()
        return words in self.messages()

    def left_behind(self) -> list[psutil.Process]:
        """Its processes, children with a session of their own, too; not the stack's servers, which stay up."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get(MARK) == self._mark and "turnstile.ops.main" in process.cmdline()
            except psutil.Error:
                continue
            found += [process] if ours else []
        return found

    def kill(self) -> None:
        for process in self.left_behind():
            process.kill()
        self.process.wait()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Running]]:
    """What a test starts. All of it is gone after the test."""
    running: list[Running] = []
    yield running
    for one in running:
        one.kill()


def databases(stack: LocalStack) -> list[str]:
    with psycopg.connect(stack.postgres.url) as looking:
        return [name for (name,) in looking.execute("SELECT datname FROM pg_database WHERE datname LIKE 'demo%'")]


def test_the_demo_ends_well_and_the_line_it_prints_last_works(
    stack: LocalStack, tmp_path: Path, started: list[Running]
) -> None:
    before = databases(stack)
    started.append(demo := Running(tmp_path, "demo", "--home", str(stack.home)))
    code = demo.process.wait(SECONDS)
    [line] = re.findall(r"^next: `(.*)` runs an API, a worker and a page to talk to them$", demo.messages(), re.M)
    program, *arguments = line.split()
    started.append(dev := Running(tmp_path, *arguments, "--port", str(choose_free())))
    wait_until(lambda: dev.says("Ctrl-C"), within=SECONDS)
    dev.process.send_signal(signal.SIGINT)

    assert code == 0, demo.messages()
    assert program.endswith("turnstile")
    assert arguments == ["dev", "--home", str(stack.home)]
    assert dev.process.wait(SECONDS) == 0, dev.messages()
    wait_until(lambda: not dev.left_behind(), within=SECONDS)
    assert (demo.left_behind(), databases(stack)) == ([], before)


def test_the_demo_ends_well_with_sealed_contents(stack: LocalStack, tmp_path: Path, started: list[Running]) -> None:
    file = tmp_path / "sealing.json"
    file.write_text(json.dumps({"seal_with": "demo", "keys": {"demo": b64encode(bytes(32)).decode()}}))
    file.chmod(0o600)
    started.append(demo := Running(tmp_path, "demo", "--home", str(stack.home), TURNSTILE_SEALING_KEYS_FILE=str(file)))

    assert demo.process.wait(SECONDS) == 0, demo.messages()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_demo_that_is_ended_early_leaves_nothing_behind(
    stack: LocalStack, tmp_path: Path, started: list[Running], number: signal.Signals
) -> None:
    before = databases(stack)
    started.append(demo := Running(tmp_path, "demo", "--home", str(stack.home)))
    wait_until(lambda: demo.says("an API and two workers are starting"), within=SECONDS)
    demo.process.send_signal(number)

    assert demo.process.wait(SECONDS) == 128 + number, demo.messages()
    assert (demo.left_behind(), databases(stack)) == ([], before)
