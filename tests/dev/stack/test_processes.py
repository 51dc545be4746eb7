"""The lock of a stack, and the pid file of a detached process."""

import fcntl
import os
import sys
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from turnstile.dev.stack import processes
from turnstile.dev.stack.processes import DetachedProcess, Launch, LocalStackError, exclusive


def test_a_command_that_waits_too_long_for_another_one_names_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 0.05)

    with (
        exclusive(tmp_path / "lock"),
        pytest.raises(LocalStackError, match=f"pid {os.getpid()}"),
        exclusive(tmp_path / "lock"),
    ):
        pass


def test_a_lock_file_that_was_removed_meanwhile_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_lock, removed = processes._lock, []

    def lock(file: IO[str], seconds: float) -> bool:
        if not removed:
            removed.append((tmp_path / "lock").unlink())
        return really_lock(file, seconds)

    monkeypatch.setattr(processes, "_lock", lock)
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 0.05)

    with exclusive(tmp_path / "lock"), pytest.raises(LocalStackError), exclusive(tmp_path / "lock"):
        pass
    assert removed


def test_a_process_whose_pid_is_not_written_yet_does_not_run(tmp_path: Path) -> None:
    with (tmp_path / "pid").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)

        assert DetachedProcess(tmp_path / "pid", tmp_path / "log").pid() is None


def test_a_start_is_refused_while_a_process_without_a_pid_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PID_LOCK_SECONDS", 0.05)
    with (tmp_path / "pid").open("w") as orphan:
        fcntl.flock(orphan, fcntl.LOCK_EX)

        with pytest.raises(LocalStackError, match="end it"):
            DetachedProcess(tmp_path / "pid", tmp_path / "log").start(Launch(["true"], tmp_path))


def test_a_process_whose_pid_cannot_be_written_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any) -> int:
        raise OSError("no space left")

    process = DetachedProcess(tmp_path / "pid", tmp_path / "log")
    endless = Launch([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="no space left"):
            process.start(endless)

    assert [child for child in psutil.Process().children() if child.cmdline() == list(endless.command)] == []
