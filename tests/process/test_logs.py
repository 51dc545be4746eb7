"""Log lines: one per event, with ids, and never the details that Postgres puts into its errors."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
import structlog

from tests.conftest import ROOT
from tests.support.log_restoring import log_restored
from tests.support.probes import turn_loop
from turnstile.config.settings import Settings
from turnstile.process import logs
from turnstile.telemetry import own_log
from turnstile.telemetry.terminal_text import harmless

Lines = Callable[[], list[str]]


@pytest.fixture
def stderr() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@pytest.fixture
def lines(stderr: io.TextIOWrapper) -> Lines:
    def read() -> list[str]:
        stderr.flush()
        stderr.seek(0)
        return stderr.read().splitlines()

    return read


@contextmanager
def configured(stderr: io.TextIOWrapper, log_format: Literal["json", "console", "auto"]) -> Iterator[Any]:
    with log_restored(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        logs.configure(Settings(log_format=log_format))
        patched.undo()
        yield own_log.log
        structlog.contextvars.clear_contextvars()


@pytest.fixture
def log(stderr: io.TextIOWrapper) -> Iterator[Any]:
    """A logger of a process that logs JSON, from INFO on."""
    with configured(stderr, "json") as logger:
        yield logger


def event_of(lines: Lines) -> dict[str, Any]:
    [line] = lines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_json_with_its_event_its_level_its_time_and_its_fields(log: Any, lines: Lines) -> None:
    log.bind(turn_id="t-1").warning("turn.late", seconds=2.5)

    event = event_of(lines)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "turn.late", "level": "warning", "turn_id": "t-1", "seconds": 2.5}


async def test_fields_that_are_bound_for_a_task_are_in_its_lines_only(log: Any, lines: Lines) -> None:
    async def work(name: str) -> None:
        logs.bind(name="overwritten", trace_id="abc")
        logs.bind(name=name)
        await turn_loop(1)
        log.info("x")

    await asyncio.gather(work("a"), work("b"))
    log.info("after")

    events = [json.loads(line) for line in lines()]
    assert [(event.get("name"), event.get("trace_id")) for event in events] == [
        ("a", "abc"),
        ("b", "abc"),
        (None, None),
    ]


def test_fields_that_a_handler_binds_by_structlog_are_in_its_lines(log: Any, lines: Lines) -> None:
    structlog.contextvars.bind_contextvars(customer="c-1")

    log.info("x")

    assert event_of(lines)["customer"] == "c-1"


@pytest.mark.usefixtures("log")
def test_a_handler_s_own_logger_of_structlog_writes_lines_of_the_same_form(lines: Lines) -> None:
    structlog.get_logger().info("x", customer="c-1")

    assert event_of(lines)["customer"] == "c-1"


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_value_that_can_not_be_shown_costs_no_line(
    log_format: Literal["json", "console"], stderr: io.TextIOWrapper, lines: Lines
) -> None:
    endless: list[Any] = []
    endless.append(endless)

    with configured(stderr, log_format) as log:
        log.info("x", a=UnprintableError())
        log.info("x", a=UnprintableError(), b=endless, c={(1, 2): 3})

    assert len(lines()) == 2


def test_no_control_character_of_a_value_reaches_a_terminal(stderr: io.TextIOWrapper, lines: Lines) -> None:
    with configured(stderr, "console") as log:
        try:
            raise ValueError("\x1b]0;title\x07")
        except ValueError:
            log.exception("x", said="\x1b[31m \u202e")

    said = "\n".join(lines())
    assert "ValueError" in said
    assert harmless(said) == said


def test_lone_surrogates_and_giant_numbers_are_logged(log: Any, lines: Lines) -> None:
    log.info("x", said="\ud800", many=10**30)

    event = event_of(lines)
    assert (event["said"], event["many"]) == ("\ud800", 10**30)


def test_lines_below_the_level_are_left_out(log: Any, lines: Lines) -> None:
    log.debug("quiet")
    log.error("loud")

    assert event_of(lines)["event"] == "loud"


def test_the_detail_of_a_postgres_error_is_left_out(log: Any, lines: Lines) -> None:
    log.warning("x", error="refused\nDETAIL: Failing row contains (a message of the user)")

    assert event_of(lines)["error"] == "refused"


def test_a_librarys_sentence_is_a_field_and_its_event_is_named_after_its_logger(log: Any, lines: Lines) -> None:
    logging.getLogger("psycopg.pool").warning("discarding closed connection: %s", "<BAD at 0x7f15>")
    logging.getLogger("x").info("left out")

    event = event_of(lines)
    assert (event["event"], event["level"]) == ("psycopg.pool", "warning")
    assert event["message"] == "discarding closed connection: <BAD at 0x7f15>"


def test_a_pool_that_tries_each_second_says_a_reason_once_in_a_while(
    log: Any, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, other = logging.getLogger("psycopg.pool"), logging.getLogger("theirs")
    for _ in range(3):
        pool.warning("error connecting in %r: refused", "a")
        other.warning("again")
    pool.warning("error connecting in %r: refused", "b")
    monkeypatch.setattr(logs, "SAME_SECONDS", 0.0)
    pool.warning("error connecting in %r: refused", "a")

    said = [json.loads(line)["message"] for line in lines()]
    assert said.count("again") == 3
    assert [line for line in said if line != "again"] == [f"error connecting in '{name}': refused" for name in "aba"]


def test_an_exception_stays_on_one_line(log: Any, lines: Lines) -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        log.exception("x")

    assert "ZeroDivisionError" in event_of(lines)["exception"]


@pytest.mark.parametrize("log_format", ["console", "auto"])
def test_without_a_terminal_the_format_auto_is_json(
    log_format: Literal["console", "auto"], stderr: io.TextIOWrapper, lines: Lines
) -> None:
    with configured(stderr, log_format) as log:
        log.info("x")

    [line] = lines()
    assert line.startswith("{") is (log_format == "auto")


@pytest.mark.parametrize(
    ("log_format", "call"),
    [("json", "log.info('x')"), ("console", "log.info('x' * 100_000)"), ("json", "logging.getLogger('x').error('x')")],
)
def test_a_line_that_can_not_be_written_raises_nothing(log_format: str, call: str) -> None:
    """As on a full disk. A real process, because its standard error is configured once."""
    program = f"""
import logging, os
from turnstile.process.logs import configure
from turnstile.config.settings import Settings
from turnstile.telemetry.own_log import log
configure(Settings(log_format={log_format!r}))
{call}
{call}
os.write(1, b"went on"); os._exit(0)
"""
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=full)

    assert done.stdout == b"went on"
