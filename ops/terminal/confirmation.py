"""The question before something is changed. A program that forgot --yes is refused, never kept waiting."""

import sys

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the person agrees, or said --yes beforehand; else the command ends here, with nothing done."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Nobody is there to answer: say --yes", ExitCode.USAGE)
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")
