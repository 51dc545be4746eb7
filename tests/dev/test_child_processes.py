"""How `turnstile up` stops its children: SIGTERM for each signal, SIGKILL only long after the grace period."""

import os
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from tests.support.probes import wait_until
from turnstile.dev import child_processes
from turnstile.dev.child_processes import ChildProcesses

# Instead of the real command: like a worker with a long turn, it ends with the second SIGTERM.
ENDS_WITH_THE_SECOND_SIGTERM = """
import pathlib, signal, sys, time
received = []
signal.signal(signal.SIGTERM, lambda *_: received.append(pathlib.Path(sys.argv[1], "stopping").touch()))
pathlib.Path(sys.argv[1], "ready").touch()
while len(received) < 2:
    time.sleep(0.01)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "turnstile" / "ops"
    package.mkdir(parents=True)
    (package / "main.py").write_text(ENDS_WITH_THE_SECOND_SIGTERM)
    # Safe path: without the working folder, which has the real package.
    return {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}


def start(environment: dict[str, str], grace_seconds: float, folder: Path) -> ChildProcesses:
    children = ChildProcesses(environment, grace_seconds)
    children.start("worker", str(folder))
    wait_until((folder / "ready").exists)
    return children


def test_a_further_signal_is_a_further_sigterm(environment: dict[str, str], tmp_path: Path) -> None:
    children = start(environment, 60, tmp_path)
    signals: SimpleQueue[int] = SimpleQueue()

    def signal_again() -> None:
        wait_until((tmp_path / "stopping").exists)
        signals.put(2)

    operator = Thread(target=signal_again)
    operator.start()
    stopped = children.stop(signals)
    operator.join()

    assert stopped


def test_only_a_child_that_outlasts_its_grace_period_is_killed(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_processes, "KILL_AFTER_SECONDS", 0.0)
    children = start(environment, 1, tmp_path)

    assert not children.stop()
    assert (tmp_path / "stopping").exists()
