"""`turnstile submit --direct --file`: whom an option of the command line means where each line speaks for itself."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.cli import app
from turnstile.ops.commands.submit_direct import read_lines
from turnstile.ops.terminal.exit_codes import ExitCode

NOWHERE = {"DATABASE_URL": "postgresql://127.0.0.1:1/x", "AWS_REGION": "us-east-1"}
SETTINGS = Settings(queues=(QueueSettings(name="turns"), QueueSettings(name="nights")))

LINE_SAYS = [
    ("--execute-at", "2030-01-01T00:00:00Z"),
    ("--turn-id", "00000000-0000-7000-8000-000000000000"),
    ("--metadata", "{}"),
    ("--webhook", "https://example.test/done"),
]


def line(**said: object) -> str:
    return json.dumps({"session_id": "alice", "input": "hello", **said})


def submit_file(file: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["submit", "--direct", "--file", str(file), *options], env=NOWHERE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "turns.jsonl"
    file.write_text(line())
    return file


@pytest.mark.parametrize(("option", "value"), LINE_SAYS)
def test_what_each_line_says_for_itself_is_no_option(file: Path, option: str, value: str) -> None:
    ran = submit_file(file, option, value)

    assert (ran.exit_code, option in ran.stderr) == (ExitCode.USAGE, True)


def test_all_options_that_no_line_hears_of_are_named_at_once(file: Path) -> None:
    ran = submit_file(file, *(word for option in LINE_SAYS for word in option))

    assert [option for option, _ in LINE_SAYS if option not in ran.stderr] == []


def test_a_batch_always_stands_in_line(file: Path) -> None:
    ran = submit_file(file, "--on-busy", "reject")

    assert (ran.exit_code, "--direct always enqueues" in ran.stderr) == (ExitCode.USAGE, True)


def test_the_queue_that_is_named_is_looked_for(file: Path) -> None:
    ran = submit_file(file, "--queue", "nope")

    assert ran.exit_code == ExitCode.NOT_FOUND
    assert "line 1: queue 'nope' is not declared" in ran.stderr


def test_the_queue_that_is_named_is_that_of_every_line_without_one() -> None:
    lines = [line().encode(), line(queue=None).encode(), line(queue="turns").encode()]

    read = read_lines(lines, SETTINGS, "default", None, queue="nights")

    assert [submission.queue for submission in read] == ["nights", "nights", "turns"]


def test_a_line_is_the_same_turn_whether_it_or_the_command_names_its_queue() -> None:
    [by_command] = read_lines([line().encode()], SETTINGS, "default", None, queue="nights")
    [by_line] = read_lines([line(queue="nights").encode()], SETTINGS, "default", None)

    assert by_command.fingerprint == by_line.fingerprint
