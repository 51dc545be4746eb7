"""`turnstile completion`: prints what makes a shell complete the commands and options of `turnstile`."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import shell_complete

PROGRAM = "turnstile"
VARIABLE = "_TURNSTILE_COMPLETE"
"""The variable by which the script asks the program for completions (`complete_bash`); Typer's `main` answers."""


class Shell(StrEnum):
    """The shells that are supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(context: typer.Context, shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")]) -> None:
    """Print the completion script of a shell.

    bash: eval "$(turnstile completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit;
    fish: turnstile completion fish > ~/.config/fish/completions/turnstile.fish
    """
    raise typer.Exit(shell_complete(context.find_root().command, {}, PROGRAM, VARIABLE, f"source_{shell}"))
