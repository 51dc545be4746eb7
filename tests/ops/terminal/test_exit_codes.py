"""Errors on the command line: each has its exit code and one line on standard error."""

import json
import socket
from pathlib import Path

import pytest

from tests.support.command_line import turnstile
from turnstile.errors import (
    AddressUnusableError,
    DatabaseUnavailableError,
    QueueUnavailableError,
    SettingsError,
    UnknownQueueError,
)
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode, explain


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingsError("queue: bad"), ExitCode.USAGE, "settings: queue: bad"),
        (UnknownQueueError("q", ("turns",)), ExitCode.NOT_FOUND, "queue 'q' is not declared; declared: turns"),
        (UnknownQueueError("q"), ExitCode.NOT_FOUND, "SQS has no queue 'q'; `turnstile queues create` makes"),
        (AddressUnusableError("", 80, OSError(98, "Address already in use")), ExitCode.USAGE, "port 80 is taken"),
        (DatabaseUnavailableError("gone\nDETAIL: a row"), ExitCode.UNAVAILABLE, "the database does not answer: gone"),
        (QueueUnavailableError("gone"), ExitCode.UNAVAILABLE, "the queue does not answer: gone"),
        (CommandError("no such turn", ExitCode.NOT_FOUND), ExitCode.NOT_FOUND, "no such turn"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted"),
        (ZeroDivisionError("by zero"), ExitCode.FAILED, "internal error: ZeroDivisionError: by zero"),
    ],
)
def test_each_error_has_its_code_and_one_line(error: BaseException, code: ExitCode, line: str) -> None:
    found, text = explain(error)

    assert found is code
    assert text.startswith(line)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("arguments", "environment", "code"),
    [
        (["list"], {"DATABASE_URL": "postgresql://127.0.0.1:1/x"}, ExitCode.UNAVAILABLE),
        (["list"], {"TURNSTILE_LEASE_SECONDS": "many"}, ExitCode.USAGE),
        (["redrive", "--queue", "nope"], {}, ExitCode.NOT_FOUND),
        (["migrate", "--wait", "0"], {"DATABASE_URL": "postgresql://127.0.0.1:1/x"}, ExitCode.UNAVAILABLE),
        (["migrate", "--down", "--revision", "base"], {}, ExitCode.USAGE),
        (["submit", "a", "b"], {"TURNSTILE_API_URL": "http://127.0.0.1:1"}, ExitCode.UNAVAILABLE),
        (["submit", "a", "b"], {"TURNSTILE_API_URL": "nowhere"}, ExitCode.USAGE),
        (["submit", "--direct", "no good", "b"], {}, ExitCode.USAGE),
        (["worker", "--handler", "nowhere:respond"], {}, ExitCode.USAGE),
        (["worker"], {}, ExitCode.USAGE),
        (["submit", "--direct", "--tenant", "no good", "a", "b"], {}, ExitCode.USAGE),
        (["submit", "no good", "b"], {}, ExitCode.USAGE),
        (["submit", "a", "b", "--idempotency-key", ""], {}, ExitCode.USAGE),
        (["submit", "a", "b", "--idempotency-key", "schlüssel"], {}, ExitCode.USAGE),
        (["submit", "--direct", "a", "b", "--idempotency-key", ""], {}, ExitCode.USAGE),
        (["submit", "a", "\udcff"], {}, ExitCode.USAGE),
        (["submit", "\udcff", "b"], {}, ExitCode.USAGE),
        (["submit", "--direct", "a", "b", "--queue", "nope"], {}, ExitCode.NOT_FOUND),
        (["list", "--queue", "nope"], {}, ExitCode.NOT_FOUND),
        (["dlq", "list", "--queue", "nope"], {}, ExitCode.NOT_FOUND),
        (["worker", "--queue", "nope"], {"TURNSTILE_QUEUES": '[{"name": "turns"}]'}, ExitCode.NOT_FOUND),
        (["list"], {"DATABASE_URL": "mysql://localhost/x"}, ExitCode.USAGE),
        (
            ["worker", "--handler", "turnstile.examples.eliza:respond"],
            {"REDIS_URL": "http://localhost"},
            ExitCode.USAGE,
        ),
        (["submit", "a", "b"], {"TURNSTILE_API_KEY": "0123456789\n"}, ExitCode.USAGE),
        (["api"], {"TURNSTILE_API_HOST": "192.0.2.1", "TURNSTILE_API_KEYS": "a:0123456789"}, ExitCode.USAGE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_goes_wrong_is_one_line_for_people(
    arguments: list[str], environment: dict[str, str], code: ExitCode
) -> None:
    result = turnstile(*arguments, **environment)

    assert result.returncode == code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr


@pytest.mark.parametrize(("kind", "code"), [("unknown-queue", ExitCode.NOT_FOUND), ("invalid-body", ExitCode.USAGE)])
def test_a_queue_that_the_api_does_not_know_is_not_found_over_http_too(kind: str, code: ExitCode) -> None:
    from turnstile.ops.commands.submit_http import Answer, read_answer

    problem = {"type": f"https://example.test/problems/{kind}", "detail": "it says why"}
    with pytest.raises(CommandError, match="422: it says why") as refused:
        read_answer(Answer(422, json.dumps(problem).encode()), "http://api", keyed=True)

    assert refused.value.code is code


def test_a_port_that_is_taken_is_named_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = turnstile("api", TURNSTILE_API_PORT=port)

    assert (result.returncode, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr == f"turnstile: port {port} is taken\n"


def test_a_stack_that_was_never_made_is_not_found(tmp_path: Path) -> None:
    for command in (["env"], ["status"], ["status", "--json"]):
        result = turnstile("local", *command, TURNSTILE_HOME=str(tmp_path / "none"))
        assert (result.returncode, result.stdout) == (ExitCode.NOT_FOUND, "")


def test_the_stack_trace_is_there_for_those_who_ask() -> None:
    result = turnstile("list", DATABASE_URL="postgresql://127.0.0.1:1/x", TURNSTILE_DEBUG="1")

    assert result.returncode != 0
    assert "Traceback" in result.stderr


def test_a_bad_line_of_a_file_is_named_before_anything_is_submitted(tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"session_id": "a", "input": "x"}\n\n{"session_id": "a", "inptu": "x"}\n')

    result = turnstile("submit", "--direct", "--file", str(file), DATABASE_URL="postgresql://127.0.0.1:1/x")

    assert result.returncode == ExitCode.USAGE
    assert "line 3" in result.stderr
    assert "nothing was submitted" in result.stderr
