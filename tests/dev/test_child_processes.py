"""How the demo stops its processes: SIGTERM, and SIGKILL only long after the grace period."""

import os
from pathlib import Path

import psutil
import pytest

from tests.support.probes import wait_until
from turnstile.dev import child_processes
from turnstile.dev.child_processes import ChildProcesses

# Instead of the real command: like a worker with a long turn, it does not end with the first SIGTERM.
ENDS_WITH_THE_SECOND_SIGTERM = """
import os, pathlib, signal, sys, time
received = []
signal.signal(signal.SIGTERM, lambda *_: received.append(pathlib.Path(sys.argv[1], "stopping").touch()))
pathlib.Path(sys.argv[1], "ready").write_text(str(os.getpid()))
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
    children = ChildProcesses(environment, grace_seconds, folder)
    children.start("worker", str(folder))
    wait_until((folder / "ready").exists)
    return children


def test_only_a_child_that_outlasts_its_grace_period_is_killed(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_processes, "KILL_AFTER_SECONDS", 0.0)
    children = start(environment, 1, tmp_path)

    children.stop()

    assert (tmp_path / "stopping").exists()
    assert not psutil.pid_exists(int((tmp_path / "ready").read_text()))
