"""The three streams of a command, where its caller has closed them, a disk is full, or an encoding lacks a character."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.invoke import NOWHERE
from turnstile.ops.terminal.exit_codes import ExitCode

pytestmark = pytest.mark.long


def run(words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command line after `turnstile`, with the shell's redirections."""
    command = f'exec "$PYTHON" -m turnstile.ops.main {words}'
    given = {**os.environ, "PYTHON": sys.executable, "AWS_REGION": "us-east-1", "DATABASE_URL": NOWHERE, **environment}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180, env=given)


@pytest.mark.parametrize("words", ["completion bash", "--version", "list --json"])
def test_a_command_whose_output_is_closed_does_nothing_and_says_so(words: str) -> None:
    ran = run(f"{words} >&-")

    assert (ran.returncode, ran.stdout) == (ExitCode.USAGE, "")
    assert ran.stderr == "turnstile: standard output is closed: send it to a file, or to /dev/null\n"


def test_a_process_that_only_logs_runs_without_an_output() -> None:
    ran = run("worker --handler nowhere:at_all >&-")

    assert (ran.returncode, "nowhere" in ran.stderr) == (ExitCode.USAGE, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_named() -> None:
    ran = run("completion bash >/dev/full")

    assert (ran.returncode, ran.stderr) == (ExitCode.FAILED, "turnstile: cannot write: No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_a_closed_input_or_log_is_as_an_empty_one(closed: str) -> None:
    asked, listed = run(f"migrate --down --revision base {closed}"), run(f"list {closed}")

    assert (asked.returncode, listed.returncode) == (ExitCode.USAGE, ExitCode.UNAVAILABLE)
    assert "internal error" not in asked.stderr


def test_a_character_that_the_output_lacks_is_escaped() -> None:
    ran = run("submit --help", PYTHONIOENCODING="latin-1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"JSON lines {session_id, input, \u2026}" in " ".join(ran.stdout.split())
