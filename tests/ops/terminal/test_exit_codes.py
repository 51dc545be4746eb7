"""Errors on the command line: each has its exit code and one line on standard error."""

import socket
from pathlib import Path

import pytest

from tests.ops.invoke import NOWHERE, invoke_plain
from turnstile.client import ApiUnreachableError, ClientError, UnexpectedAnswerError
from turnstile.client.errors import problem
from turnstile.errors import (
    AddressUnusableError,
    DatabaseUnavailableError,
    QueueUnavailableError,
    RowLockedError,
    SettingsError,
    UnknownQueueError,
)
from turnstile.ops.submit.submit_http import explain_refusal
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode, explain

LOCAL_ENV = 'for the local stack: eval "$(turnstile local env)", with --home FOLDER unless its data is in ./.local'


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingsError("queue: bad"), ExitCode.USAGE, "settings: queue: bad"),
        (UnknownQueueError("q", ("turns",)), ExitCode.NOT_FOUND, "queue 'q' is not declared; declared: turns"),
        (UnknownQueueError("q"), ExitCode.NOT_FOUND, "SQS has no queue 'q'; `turnstile queues create` makes"),
        (
            AddressUnusableError("", 80, OSError(98, "Address already in use")),
            ExitCode.USAGE,
            "port 80 is taken by another program: stop it, or choose another port",
        ),
        (DatabaseUnavailableError("gone\nDETAIL: a row"), ExitCode.UNAVAILABLE, "the database does not answer: gone"),
        (
            RowLockedError("timeout"),
            ExitCode.UNAVAILABLE,
            "another transaction has locked what this needs; `turnstile doctor` names it: timeout",
        ),
        (QueueUnavailableError("gone"), ExitCode.UNAVAILABLE, "SQS does not answer: gone"),
        (CommandError("no such turn", ExitCode.NOT_FOUND), ExitCode.NOT_FOUND, "no such turn"),
        (OSError(28, "No space left on device"), ExitCode.FAILED, "cannot write: No space left on device"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no"), ExitCode.USAGE, "an argument or a variable is not UTF-8"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted"),
        (ZeroDivisionError("by zero"), ExitCode.FAILED, "internal error: ZeroDivisionError: by zero"),
    ],
)
def test_each_error_has_its_code_and_one_line(error: BaseException, code: ExitCode, line: str) -> None:
    found, text = explain(error)

    assert found is code
    assert text.startswith(line)
    assert "\n" not in text


def test_on_request_an_error_is_a_stack_trace() -> None:
    with pytest.raises(DatabaseUnavailableError):
        invoke_plain("list", DATABASE_URL=NOWHERE, TURNSTILE_DEBUG="1")


@pytest.mark.parametrize(
    ("line", "environment", "code"),
    [
        ("list", {"TURNSTILE_LEASE_SECONDS": "many"}, ExitCode.USAGE),
        ("list", {"DATABASE_URL": "mysql://localhost/x"}, ExitCode.USAGE),
        ("list --queue nope", {}, ExitCode.NOT_FOUND),
        ("migrate --wait 0", {"DATABASE_URL": NOWHERE}, ExitCode.UNAVAILABLE),
        ("worker", {}, ExitCode.USAGE),
        ("worker --handler nowhere:respond", {}, ExitCode.USAGE),
        ("worker --handler turnstile.examples.eliza:respond", {"REDIS_URL": "http://localhost"}, ExitCode.USAGE),
        ("worker --queue nope", {"TURNSTILE_QUEUES": '[{"name": "turns"}]'}, ExitCode.NOT_FOUND),
        ("api", {"TURNSTILE_API_HOST": "192.0.2.1", "TURNSTILE_API_KEYS": "a:0123456789"}, ExitCode.USAGE),
        ("submit a b", {"TURNSTILE_API_URL": "http://127.0.0.1:1"}, ExitCode.UNAVAILABLE),
        ("submit a b", {"TURNSTILE_API_URL": "nowhere"}, ExitCode.USAGE),
        ("submit a b", {"TURNSTILE_API_URL": "ftp://api"}, ExitCode.USAGE),
        ("submit a b", {"TURNSTILE_API_KEY": "0123456789\n"}, ExitCode.USAGE),
        ("submit a b --idempotency-key schlüssel", {}, ExitCode.USAGE),
        ("submit a b --idempotency-key=", {}, ExitCode.USAGE),
        ("submit no:/good b", {}, ExitCode.USAGE),
        ("submit \udcff b", {}, ExitCode.USAGE),
        ("submit --direct --tenant no:/good a b", {}, ExitCode.USAGE),
        ("submit --direct a b --queue nope", {}, ExitCode.NOT_FOUND),
    ],
)
def test_what_goes_wrong_is_one_line(line: str, environment: dict[str, str], code: ExitCode) -> None:
    ran = invoke_plain(*line.split(), **environment)

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran.err


def refusal(status: int, kind: str = "some") -> ClientError:
    return problem({"type": f"/problems/{kind}", "detail": "why"}, status, None)


@pytest.mark.parametrize(
    ("error", "keyed", "code", "line"),
    [
        (refusal(422, "unknown-queue"), True, ExitCode.NOT_FOUND, "422: why"),
        (refusal(422, "invalid-body"), True, ExitCode.USAGE, "422: why"),
        (refusal(404), True, ExitCode.NOT_FOUND, "404: why"),
        (refusal(409), True, ExitCode.FAILED, "409: why"),
        (refusal(429), True, ExitCode.UNAVAILABLE, "429: why"),
        (refusal(503), True, ExitCode.UNAVAILABLE, "503: why"),
        # A response of another program, such as the application whose port TURNSTILE_API_URL names.
        (
            UnexpectedAnswerError("http://api", 404),
            True,
            ExitCode.UNAVAILABLE,
            "http://api answered 404, but not as a Turnstile API does",
        ),
        (refusal(401), True, ExitCode.USAGE, "401: the API does not know this key: correct TURNSTILE_API_KEY"),
        (refusal(401), False, ExitCode.USAGE, f"401: the API requires a key: set TURNSTILE_API_KEY; {LOCAL_ENV}"),
        (
            ApiUnreachableError("http://api", "it broke", sent=True),
            True,
            ExitCode.UNAVAILABLE,
            "the API at http://api does not answer: it broke; repeat it",
        ),
    ],
)
def test_a_refusal_of_the_api_has_an_exit_code_and_a_line(
    error: ClientError, keyed: bool, code: ExitCode, line: str
) -> None:
    refused = explain_refusal(error, keyed=keyed, again="; repeat it")

    assert (refused.code, str(refused)) == (code, line)


def test_an_api_that_is_not_there_is_named_with_what_to_do() -> None:
    ran = invoke_plain("submit", "s", "hello", TURNSTILE_API_URL="http://127.0.0.1:1")

    assert ran.code == ExitCode.UNAVAILABLE
    assert ran.err == (
        "turnstile: the API at http://127.0.0.1:1 does not answer: [Errno 111] Connection refused; "
        "start one with `turnstile api`, or set TURNSTILE_API_URL\n"
    )


def test_a_port_that_is_taken_is_named_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ran = invoke_plain("api", TURNSTILE_API_PORT=port)

    assert (ran.code, ran.out, ran.err) == (
        ExitCode.USAGE,
        "",
        f"turnstile: port {port} is taken by another program: stop it, or choose another port\n",
    )


@pytest.mark.parametrize("command", ["env", "status", "status --json"])
def test_a_stack_that_was_never_made_is_not_found(tmp_path: Path, command: str) -> None:
    ran = invoke_plain("local", *command.split(), TURNSTILE_HOME=str(tmp_path / "none"))

    assert (ran.code, ran.out) == (ExitCode.NOT_FOUND, "")


def test_a_variable_that_is_not_a_setting_is_named_in_one_line_and_stops_no_command() -> None:
    ran = invoke_plain("worker", TURNSTILE_CONCURENCY="5", TURNSTILE_REDRIVE_LIMIT="3", TURNSTILE_HOME="/nowhere")

    named, refused = ran.err.splitlines()
    assert named == "turnstile: not settings, so without effect: TURNSTILE_CONCURENCY (for TURNSTILE_CONCURRENCY?)"
    assert refused == "turnstile: settings: TURNSTILE_HANDLER: is not set; name a module:function"


@pytest.mark.parametrize("command", ["worker --handler turnstile.examples.eliza:respond", "relay", "queues create"])
def test_a_missing_region_is_named_with_what_sets_it(command: str, tmp_path: Path) -> None:
    nothing = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "")

    ran = invoke_plain(*command.split(), AWS_CONFIG_FILE=str(tmp_path / "none"), **nothing)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert ran.err.splitlines() == [
        f"turnstile: settings: AWS_REGION: is not set, and the AWS configuration names no region; {LOCAL_ENV}"
    ]


@pytest.mark.parametrize("command", ["list", "migrate --wait 0"])
def test_a_missing_database_url_is_named_with_what_sets_it(command: str) -> None:
    # By PGPORT the default, which names no port, leads to one where nothing listens.
    forgotten = invoke_plain(*command.split(), PGPORT="1")
    named = invoke_plain(*command.split(), DATABASE_URL=NOWHERE)

    assert (forgotten.code, named.code) == (ExitCode.UNAVAILABLE, ExitCode.UNAVAILABLE)
    assert forgotten.err.startswith("turnstile: the database does not answer: ")
    assert forgotten.err.endswith(f"; DATABASE_URL is not set: {LOCAL_ENV}\n")
    assert "DATABASE_URL" not in named.err
