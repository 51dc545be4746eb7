"""What a run says of the stack that it was asked to stand on: refused in one line if it is not there, and no test left out
without its reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.given_queues import VARIABLE

CONFTEST = """
from tests.support.stacks.choice import *
"""
TESTS = """
import pytest

@pytest.mark.not_on("aws", "it needs the moon")
def test_of_the_moon(): raise AssertionError

@pytest.mark.not_on("containers", "it needs the sun")
def test_of_the_sun(): pass
"""
WRONG = """
import pytest

@pytest.mark.not_on("cloud", "a stack that there is not")
def test_it(): pass
"""


def run(folder: Path, *options: str, tests: str = TESTS, **environment: str) -> "subprocess.CompletedProcess[str]":
    """pytest on a folder of its own, which knows the option and nothing else of ours."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = not_on(stack, reason): as ours\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=folder, check=False, capture_output=True, text=True,
        # Installed plugins take longer to import than all of this takes.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
    )  # fmt: skip


def errors(ran: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in ran.stderr.splitlines() if line]


def test_without_an_engine_a_run_on_containers_fails_in_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "--stack=containers", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")

    (line,) = errors(ran)
    assert line.startswith("ERROR: --stack=containers: no Docker engine answers")
    assert line.endswith("make test")
    assert (ran.returncode, "passed" in ran.stdout) == (pytest.ExitCode.USAGE_ERROR, False)


def test_without_named_queues_a_run_on_aws_fails_in_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "--stack=aws", **{VARIABLE: ""})

    assert errors(ran) == [f"ERROR: --stack=aws: {VARIABLE} names no file of queues (CONTRIBUTING.md)"]
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR


def given(folder: Path) -> dict[str, str]:
    file = folder / "queues.json"
    file.write_text(json.dumps({"standard": {}, "fifo": {}}))
    return {VARIABLE: str(file)}


def test_shared_queues_are_not_shared_by_processes(tmp_path: Path) -> None:
    ran = run(tmp_path, "--stack=aws", "-p", "xdist", "-n", "2", **given(tmp_path))

    assert errors(ran) == ["ERROR: --stack=aws: all tests share the queues, so without -n"]


def test_what_was_left_out_is_counted_with_its_reason(tmp_path: Path) -> None:
    ran = run(tmp_path, "--stack=aws", **given(tmp_path))

    assert "not on aws: 1 tests: it needs the moon" in ran.stdout.splitlines()
    assert "1 passed, 1 skipped" in ran.stdout


def test_an_ordinary_run_leaves_nothing_out(tmp_path: Path) -> None:
    ran = run(tmp_path)

    assert "1 failed, 1 passed" in ran.stdout
    assert "not on" not in ran.stdout


def test_a_stack_that_there_is_not_can_t_be_named(tmp_path: Path) -> None:
    assert run(tmp_path, tests=WRONG).returncode == pytest.ExitCode.INTERNAL_ERROR
