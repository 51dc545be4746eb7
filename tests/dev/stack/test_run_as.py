"""The copies of the servers' programs that an unprivileged account can execute."""

import os
import pwd
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from turnstile.dev.stack.processes import LocalStackError
from turnstile.dev.stack.run_as import RunAs

LARGE = 64_000_000


@pytest.fixture
def run_as(tmp_path: Path) -> RunAs:
    return RunAs(tmp_path / "copies", pwd.getpwuid(os.getuid()))


def hold_inherited_files() -> None:
    """Before exec, a child has the open files of all threads of its parent."""
    threading.Event().wait(0.05)


def test_a_copied_program_starts_at_once_while_other_threads_start_processes(run_as: RunAs, tmp_path: Path) -> None:
    program = tmp_path / "true"
    shutil.copy(str(shutil.which("true")), program)
    os.truncate(program, LARGE)
    copied = threading.Event()

    def start_processes() -> None:
        while not copied.is_set():
            subprocess.run(["true"], preexec_fn=hold_inherited_files, check=True)

    starters = [threading.Thread(target=start_processes) for _ in range(4)]
    for starter in starters:
        starter.start()
    try:
        copy = run_as.find_programs(tmp_path, ["true"]) / "true"
        assert subprocess.run([str(copy)], check=False).returncode == 0
    finally:
        copied.set()
        for starter in starters:
            starter.join()


def test_a_program_that_cannot_be_copied_is_an_error(run_as: RunAs, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "broken link").symlink_to("nowhere")

    with pytest.raises(LocalStackError, match="cannot copy"):
        run_as.find_programs(tmp_path, ["tree"])
