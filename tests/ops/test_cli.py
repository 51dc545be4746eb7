"""The command line without any service behind it: usage, exit codes, what is imported, what goes to which stream."""

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from turnstile.errors import (
    AddressUnusableError,
    DatabaseUnavailableError,
    QueueUnavailableError,
    SettingsError,
    UnknownQueueError,
)
from turnstile.ops.cli import app
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode, explain

NOBODY = "00000000-0000-7000-8000-000000000000"
HEAVY = ("aiohttp", "alembic", "asyncio", "boto3", "fastapi", "producer", "psycopg", "pydantic", "rich", "worker")


def turnstile(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The real command. Without the variables by which a developer's shell may point at a stack."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "DATABASE_URL"))}
    return subprocess.run(
        [sys.executable, "-m", "turnstile.ops.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        stdin=subprocess.DEVNULL,
        env={**plain, "AWS_REGION": "us-east-1", **environment},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["list", "--status", "nope"],
        ["list", "--limit", "0"],
        ["status", "no-uuid"],
        ["cancel"],
        ["cancel", "--tenant", "acme"],
        ["submit"],
        ["submit", "alice"],
        ["submit", "compensation:alice", "hello"],
        ["submit", "alice", "hello", "--metadata", "[1]"],
        ["submit", "alice", "hello", "--wait=-1"],
        ["status", NOBODY, "--wait", "-1"],
        ["status", NOBODY, "--wait", "nan"],
        ["submit", "alice", "hello", "--wait", "-1"],
        ["submit", "alice", "hello", "--wait", "soon"],
        ["submit", "alice", "--wait", "42"],
        ["submit", "alice", "hello", "--on-busy", "rollback"],
        ["submit", "alice", "hello", "--direct", "--on-busy", "merge"],
        ["submit", "--file", "turns.jsonl"],
        ["submit", "alice", "hello", "--direct", "--file", "turns.jsonl"],
        ["submit", "alice", "hello", "--tenant", "acme"],
        ["redrive", "--turn", "no-uuid"],
        ["redrive", "--rate", "fast"],
        ["redrive", "--rate", "0"],
        ["migrate", "--down"],
        ["dlq"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2_and_says_so_on_standard_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == ExitCode.USAGE
    assert result.stderr or not arguments[1:]
    assert "Traceback" not in result.output


def float_options(within: typer.Typer = app, *path: str) -> Iterator[tuple[str, ...]]:
    """Each option of each command that takes a float: the words of the command, then the option's name."""
    for group in within.registered_groups:
        assert group.typer_instance is not None
        assert group.name is not None
        yield from float_options(group.typer_instance, *path, group.name)
    for command in within.registered_commands:
        assert command.callback is not None
        words = (*path, command.name or command.callback.__name__)
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            kind, *about = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            declared = [word for one in about for word in getattr(one, "param_decls", None) or ()]
            if float in (kind, *get_args(kind)):
                yield *words, next(iter(declared), f"--{name.replace('_', '-')}")


def test_the_options_that_take_a_float_are_found() -> None:
    assert {("doctor", "--recent"), ("migrate", "--wait"), ("submit", "--wait")} <= set(float_options())


GIVEN = {"archive": ["--older-than=90d"], "status": [NOBODY], "submit": ["alice", "hello"]}
"""What these commands can't do without."""


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
@pytest.mark.parametrize("words", [*float_options()], ids=" ".join)
def test_no_option_takes_what_is_no_finite_number(words: tuple[str, ...], value: str) -> None:
    *command, option = words
    # Settings that are refused, for a command that would take the value and might never end.
    environment = {"DATABASE_URL": "mysql://localhost/x"}

    result = CliRunner().invoke(app, [*command, *GIVEN.get(command[0], []), f"{option}={value}"], env=environment)

    assert (result.exit_code, option in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("option", ["--recent", "--margin"])
def test_no_time_of_the_doctor_is_longer_than_postgres_can_say(option: str) -> None:
    result = CliRunner().invoke(app, ["doctor", f"{option}=1e300"], env={"DATABASE_URL": "mysql://localhost/x"})

    assert (result.exit_code, option in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("command", [[], ["local"], ["dlq"], ["queues"], ["redrive"], ["submit"], ["up"], ["demo"]])
def test_every_command_explains_itself(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])

    assert result.exit_code == ExitCode.OK
    assert "Usage: " in result.stdout


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("alice hello --wait 5", 5.0),
        ("alice hello --wait=5", 5.0),
        ("alice hello --wait 0.5 --json", 0.5),
        ("alice hello --wait", 300.0),
        ("alice hello --wait --json", 300.0),
        ("--wait alice hello", 300.0),
        ("alice --wait -- hello", 300.0),
    ],
)
def test_wait_takes_its_seconds_as_the_next_word_too(words: str, seconds: float) -> None:
    asked = parsed("submit", *words.split())

    assert (asked["wait"], asked["session"], asked["text"]) == (seconds, "alice", "hello")


@pytest.mark.parametrize(("words", "seconds"), [("--wait 60", 60.0), ("--wait=60", 60.0), ("--wait", 300.0)])
def test_status_waits_by_the_same_words(words: str, seconds: float) -> None:
    assert parsed("status", NOBODY, *words.split())["wait"] == seconds


def parsed(command: str, *words: str) -> dict[str, Any]:
    """What a command is called with after these words."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    return root.commands[command].make_context(command, list(words)).params


def test_every_option_is_an_environment_variable_as_well() -> None:
    result = CliRunner().invoke(app, ["list"], env={"TURNSTILE_LIST_STATUS": "nope"})

    assert result.exit_code == ExitCode.USAGE
    assert "nope" in result.stderr


def test_a_deployments_own_version_variable_is_not_an_option() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"TURNSTILE_VERSION": "2026.08.1"})

    assert result.exit_code == ExitCode.OK


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
        (["api"], {"DATABASE_URL": "nonsense"}, ExitCode.USAGE),
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


def test_a_variable_that_is_no_setting_is_named_in_one_line_and_refuses_nothing() -> None:
    result = turnstile("worker", TURNSTILE_CONCURENCY="5", TURNSTILE_REDRIVE_LIMIT="3", TURNSTILE_HOME="/nowhere")

    named, refused = result.stderr.splitlines()
    assert named == (
        "turnstile: TURNSTILE_CONCURENCY (did you mean TURNSTILE_CONCURRENCY?) is no setting and has no effect"
    )
    assert refused == "turnstile: settings: TURNSTILE_HANDLER: is not set; name a module:function"


LOCAL_ENV = 'eval "$(turnstile local env)" sets it for the local stack'


@pytest.mark.parametrize(
    "command",
    [
        ["worker", "--handler", "turnstile.examples.eliza:respond"],
        ["relay"],
        ["api"],
        ["dlq", "list"],
        ["submit", "--direct", "a", "b"],
        ["queues", "create"],
    ],
    ids=" ".join,
)
def test_a_shell_without_a_region_is_told_what_sets_it(command: list[str], tmp_path: Path) -> None:
    nothing = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "")

    result = turnstile(*command, TURNSTILE_API_PORT="0", AWS_CONFIG_FILE=str(tmp_path / "none"), **nothing)

    assert (result.returncode, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr.splitlines() == [
        f"turnstile: settings: AWS_REGION: is not set, and the AWS configuration names no region; {LOCAL_ENV}"
    ]


@pytest.mark.parametrize("command", [["list"], ["migrate", "--wait", "0"]], ids=" ".join)
def test_a_shell_without_a_database_is_told_what_sets_it(command: list[str]) -> None:
    # By PGPORT the default, which names no port, leads to one where nobody listens.
    forgotten = turnstile(*command, PGPORT="1")
    named = turnstile(*command, DATABASE_URL="postgresql://localhost:1/turnstile")

    assert (forgotten.returncode, named.returncode) == (ExitCode.UNAVAILABLE, ExitCode.UNAVAILABLE)
    [line] = forgotten.stderr.splitlines()
    assert line.startswith("turnstile: the database does not answer: ")
    assert line.endswith(f"; DATABASE_URL is not set: {LOCAL_ENV}")
    assert "DATABASE_URL" not in named.stderr


def test_a_shell_without_a_key_is_told_what_sets_it() -> None:
    from turnstile.ops.commands.submit_http import Answer, read_answer

    problem = Answer(401, b'{"detail": "send `Authorization: Bearer <key>`"}')
    with pytest.raises(CommandError) as forgotten:
        read_answer(problem, "http://api", keyed=False)
    with pytest.raises(CommandError) as wrong:
        read_answer(problem, "http://api", keyed=True)

    assert str(forgotten.value) == f"401: the API wants a key, and TURNSTILE_API_KEY is not set: {LOCAL_ENV}"
    assert str(wrong.value) == "401: the API does not know the key in TURNSTILE_API_KEY"


def test_a_port_that_is_taken_is_named_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = turnstile("api", TURNSTILE_API_PORT=port)

    assert (result.returncode, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr == f"turnstile: port {port} is taken\n"


def test_no_example_of_a_time_grows_stale() -> None:
    result = CliRunner().invoke(app, ["submit", "--help"])

    assert "366 days" in " ".join(result.stdout.split())
    assert "2030" not in result.stdout


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


def test_help_is_quick() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        turnstile("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    # Of the processor's time, which other tests beside this one hardly touch: 0.2 s, and 1.4 with the API's imports.
    assert min(seconds) < 0.8


def test_the_command_line_itself_imports_nothing_heavy() -> None:
    code = f"import sys, json, turnstile.ops.cli; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    assert json.loads(result.stdout) == []


def test_without_the_tools_of_the_developers_machine_the_other_commands_are_there() -> None:
    code = (
        "import importlib.util as u, sys; found = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'turnstile.ops.dev' else found(name, *rest); "
        "import turnstile.ops.cli as cli; print('turnstile.ops.dev' in sys.modules); cli.app(['--help'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    first, _, shown = result.stdout.partition("\n")
    assert first == "False"
    assert " worker " in shown
    assert " demo " not in shown


def test_a_worker_does_not_carry_the_api() -> None:
    imports = "import sys, turnstile.ops.cli, turnstile.worker.app"
    code = f"{imports}; print([m for m in ('fastapi', 'uvicorn', 'turnstile.producer') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    assert result.stdout.strip() == "[]"
