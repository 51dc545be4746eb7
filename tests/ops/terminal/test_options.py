"""Options and arguments: a wrong command line ends with 2, and every option explains itself."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from tests.support.command_line import NOBODY
from turnstile.ops.cli import app
from turnstile.ops.terminal.exit_codes import ExitCode


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
    assert {("migrate", "--wait"), ("submit", "--wait")} <= set(float_options())


GIVEN = {"archive": ["--older-than=90d"], "status": [NOBODY], "submit": ["alice", "hello"]}
"""What these commands can't do without."""


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("words", [*float_options()], ids=" ".join)
def test_no_option_takes_what_is_no_finite_number(words: tuple[str, ...], value: str) -> None:
    *command, option = words
    # Settings that are refused, for a command that would take the value and might never end.
    environment = {"DATABASE_URL": "mysql://localhost/x"}

    result = CliRunner().invoke(app, [*command, *GIVEN.get(command[0], []), f"{option}={value}"], env=environment)

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


def test_no_example_of_a_time_grows_stale() -> None:
    result = CliRunner().invoke(app, ["submit", "--help"])

    assert "366 days" in " ".join(result.stdout.split())
    assert "2030" not in result.stdout
