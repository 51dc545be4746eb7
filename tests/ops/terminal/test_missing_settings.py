"""Settings that are missing or misspelled are named, with what sets them."""

from pathlib import Path

import pytest

from tests.support.command_line import turnstile
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode


def test_a_variable_that_is_no_setting_is_named_in_one_line_and_refuses_nothing() -> None:
    result = turnstile("worker", TURNSTILE_CONCURENCY="5", TURNSTILE_REDRIVE_LIMIT="3", TURNSTILE_HOME="/nowhere")

    named, refused = result.stderr.splitlines()
    assert named == "turnstile: no settings, so they have no effect: TURNSTILE_CONCURENCY"
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
