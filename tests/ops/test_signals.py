"""What signals do to a command that has not begun its work. In a container it is process 1, for which the kernel's defaults do
not count: a SIGTERM without a handler is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.invoke import turnstile
from turnstile.ops.terminal.exit_codes import ExitCode

# Replaces the real one in the imports, which take long enough for a signal to arrive.
KILLS_ITS_IMPORTER = "import os, signal\nos.kill(os.getpid(), signal.{})\n"
LOADS_FOR_LONG = """
import os, pathlib, signal
os.kill(os.getpid(), signal.SIGTERM)
pathlib.Path({!r}).touch()
async def respond(turn, ctx): ...
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", ExitCode.INTERRUPTED), ("SIGTERM", ExitCode.TERMINATED)])
def test_a_signal_while_the_command_is_being_loaded_ends_it_silently(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "typer.py").write_text(KILLS_ITS_IMPORTER.format(name))
    result = turnstile("list", PYTHONPATH=str(tmp_path))

    # A process that the kernel ended by its default would show -15 here, and as process 1 would have gone on.
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_a_worker_that_gets_sigterm_while_it_loads_its_handler_does_not_begin(tmp_path: Path) -> None:
    went_on = tmp_path / "went_on"
    (tmp_path / "slow_handler.py").write_text(LOADS_FOR_LONG.format(str(went_on)))
    result = turnstile("worker", "--handler", "slow_handler:respond", PYTHONPATH=str(tmp_path))

    assert (result.returncode, went_on.exists()) == (ExitCode.TERMINATED, False), result.stderr


def test_a_process_that_ignores_the_signal_still_ignores_it(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(KILLS_ITS_IMPORTER.format("SIGTERM") + "raise SystemExit(0)\n")
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); from turnstile.ops.main import main; main()"
    path = ":".join([str(tmp_path), *sys.path])
    result = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False, timeout=180)

    assert result.returncode == ExitCode.OK
