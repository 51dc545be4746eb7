"""Shell completion: the scripts, and what they ask the program for."""

import pytest

from tests.ops.invoke import invoke_plain

SHELLS = ("bash", "zsh", "fish")


def complete(shell: str, line: str) -> str:
    """What the program says to the shell's script when the cursor stands at the end of the line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    if shell != "bash":
        asked = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ran = invoke_plain(_TURNSTILE_COMPLETE=f"complete_{shell}", **asked)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_beginning_of_a_command_is_completed(shell: str) -> None:
    out = complete(shell, "turnstile qu")

    assert "queues" in out
    assert "workers" not in out


@pytest.mark.parametrize("shell", SHELLS)
def test_subcommands_and_options_are_completed(shell: str) -> None:
    assert "resume" in complete(shell, "turnstile queues re")
    assert "--since" in complete(shell, "turnstile stats --si")
    assert "--reason" in complete(shell, "turnstile queues pause --re")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_by_the_same_variable(shell: str) -> None:
    ran = invoke_plain("completion", shell)

    assert ran.code == 0
    assert f"_TURNSTILE_COMPLETE=complete_{shell}" in ran.out


def test_no_option_writes_into_the_users_files() -> None:
    assert "--install-completion" not in invoke_plain("--help").out
