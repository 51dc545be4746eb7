"""The commands for the developer's machine: `local`, `up`, `demo`."""

import typer

from turnstile.ops.dev import local_command, up


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.add_typer(local_command.commands, name="local")
    app.command("up")(up.up)
    app.command("demo")(demo)


def demo(home: local_command.Home = local_command.DEFAULT_HOME) -> None:
    """The whole thing at work: conversations, a killed worker, dead letters, a redrive, and a check."""
    from turnstile.ops.dev.demo.run import perform

    raise typer.Exit(perform(home))
