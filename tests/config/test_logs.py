"""Log lines: one an event, with ids, and never the details that Postgres puts into its errors."""

import json
import subprocess
import sys
from typing import Any

import pytest
import structlog
import typer
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.support.log_restoring import log_restored
from turnstile.config.logs import configure
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings

SETUP = """
import logging, structlog
from turnstile.config import logs
from turnstile.config.logs import configure
from turnstile.config.settings import Settings
from turnstile.config.queue_settings import QueueSettings
configure(Settings(log_format={log_format!r}, log_level={log_level!r}, queues=(QueueSettings(name="turns"),)))
log = structlog.get_logger("turnstile.test")
"""


def lines_of(program: str, log_format: str = "json", log_level: str = "info") -> list[str]:
    """What a process of its own writes to standard error: the configuration is a process's, once and for all."""
    setup = SETUP.format(log_format=log_format, log_level=log_level)
    done = subprocess.run([sys.executable, "-c", setup + program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def event_of(program: str) -> dict[str, Any]:
    (line,) = lines_of(program)
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_json_with_its_event_its_level_its_time_and_its_fields() -> None:
    event = event_of("log.bind(turn_id='t-1').warning('turn.late', seconds=2.5)")

    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "turn.late", "level": "warning", "turn_id": "t-1", "seconds": 2.5}


def test_what_is_bound_for_the_task_stands_in_each_line() -> None:
    event = event_of("logs.bind(trace_id='abc', attempt=1); logs.bind(attempt=2); log.info('x')")

    assert (event["trace_id"], event["attempt"]) == ("abc", 2)


def test_what_a_handler_has_bound_by_structlog_stands_in_its_lines() -> None:
    event = event_of("structlog.contextvars.bind_contextvars(customer='c-1'); log.info('x')")

    assert event["customer"] == "c-1"


def test_what_one_task_has_bound_is_not_said_of_another() -> None:
    line = """
import asyncio
async def one(name):
    logs.bind(name=name)
    await asyncio.sleep(0)
    log.info('x')
async def both():
    await asyncio.gather(one('a'), one('b'))
    log.info('after')
asyncio.run(both())
"""
    names = [json.loads(text).get("name") for text in lines_of(line)]

    assert names == ["a", "b", None]


def test_a_text_that_is_no_unicode_and_a_number_without_bounds_are_logged_all_the_same() -> None:
    event = event_of("log.info('x', said='\\ud800', many=10**30)")

    assert (event["said"], event["many"]) == ("\ud800", 10**30)


def test_lines_below_the_level_are_left_out() -> None:
    lines = lines_of("log.info('quiet'); log.error('loud')", log_level="error")

    assert [json.loads(line)["event"] for line in lines] == ["loud"]


def test_the_detail_of_a_postgres_error_is_left_out() -> None:
    event = event_of("log.warning('x', error='refused\\nDETAIL: Failing row contains (what the user said)')")

    assert event["error"] == "refused"


def test_the_standard_librarys_warnings_join_the_stream() -> None:
    event = event_of("logging.getLogger('botocore').warning('slow %s', 'down'); logging.getLogger('x').info('no')")

    assert (event["event"], event["level"]) == ("slow down", "warning")


def test_an_exception_stays_on_one_line() -> None:
    event = event_of("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('x')")

    assert "ZeroDivisionError" in event["exception"]


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("program", ["log.info('x')", "log.info('x' * 100_000)", "logging.getLogger('x').error('x')"])
def test_a_line_that_cannot_be_written_is_lost_and_stops_nobody(program: str, log_format: str) -> None:
    # As on a full disk: a worker that raised here would leave its locks, and an API answer 500 for what it has accepted.
    setup = SETUP.format(log_format=log_format, log_level="info")
    work_on = "import os; os.write(1, b'worked on'); os._exit(0)"
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-c", f"{setup}{program}\n{program}\n{work_on}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=full,
        )

    assert done.stdout == b"worked on"


@pytest.mark.parametrize("log_format", ["console", "auto", "json"])
def test_a_line_to_no_terminal_is_json_unless_told(log_format: str) -> None:
    (line,) = lines_of("log.info('x')", log_format=log_format)

    assert line.startswith("{") is (log_format != "console")


def test_a_command_that_a_test_runs_in_its_own_process_leaves_no_log_behind(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("turnstile.test")
    command = typer.Typer()

    @command.command()
    def speak() -> None:
        configure(Settings(log_format="json", queues=(QueueSettings(name="turns"),)))
        log.warning("said by the command")

    with log_restored():
        said = CliRunner().invoke(command, [])
    log.warning("said by the next test")

    assert "said by the command" in said.stderr
    assert "said by the next test" in capsys.readouterr().out
