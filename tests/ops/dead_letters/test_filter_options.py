"""The options of the filter that the commands about FAILED turns share."""

from inspect import signature
from typing import Any

import pytest
from typer.main import get_command

from tests.ops.invoke import NOWHERE, invoke_plain
from turnstile.ops.dead_letters.dlq_command import commands
from turnstile.ops.dead_letters.filter_options import make_filter
from turnstile.ops.dead_letters.redrive_command import redrive
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.options import make_typer


def options_by_command() -> dict[str, dict[str, str]]:
    """The help of each option of the filter, by command."""
    alone = make_typer()
    alone.command("redrive")(redrive)
    loaded: dict[str, Any] = {"redrive": get_command(alone), **get_command(commands).commands}  # type: ignore[attr-defined]
    shared = signature(make_filter).parameters
    return {
        name: {one.name: one.help for one in loaded[name].params if one.name in shared}
        for name in ("redrive", "list", "drop", "export")
    }


def test_all_commands_have_the_same_options_and_only_a_list_does_not_take_turn_ids() -> None:
    found = options_by_command()

    assert [*found["redrive"]] == [*signature(make_filter).parameters]
    assert found["redrive"] == found["drop"] == found["export"]
    assert found["list"] == {name: text for name, text in found["redrive"].items() if name != "turn"}


@pytest.mark.parametrize("line", ["redrive", "dlq list", "dlq drop", "dlq export -"])
def test_a_queue_that_is_not_declared_ends_the_command(line: str) -> None:
    ran = invoke_plain(*line.split(), "--queue", "elsewhere", DATABASE_URL=NOWHERE)

    assert (ran.code, ran.out, "elsewhere" in ran.err) == (ExitCode.NOT_FOUND, "", True)
