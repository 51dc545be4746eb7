"""The command `turnstile`: its groups, and one place where errors become a line and an exit code (`exit_codes.py`).

Importing this file imports no database, no AWS, no HTTP: each command imports what it needs when it runs, so that
`--help` is quick and a worker does not carry the API.

Every option is an environment variable as well: settings by their own name (TURNSTILE_QUEUE), all others by their
command's (TURNSTILE_REDRIVE_LIMIT).
"""

# ruff: noqa: E402 - the imports take long enough for a Ctrl-C to fall into them
import os
import signal
import sys
import threading


def _exchange_handler(number: signal.Signals, was: "Any", now: "Any") -> None:
    # Only the handler that is expected: whoever ignores SIGINT (`turnstile api &` in a script) goes on ignoring it.
    # And signals belong to the main thread.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is was:
        signal.signal(number, now)


def _leave(number: int, _: object) -> None:
    # Nothing is in hand, so nothing is to be tidied up or told.
    os._exit(128 + number)


def _leave_on_signals() -> None:
    _exchange_handler(signal.SIGINT, signal.default_int_handler, _leave)
    # Its default would do, but not in a container: for process 1 the kernel leaves a signal out that nobody has asked for.
    # A worker that was stopped while it loaded its handler went on to take turns, and was killed with them.
    _exchange_handler(signal.SIGTERM, signal.SIG_DFL, _leave)


_leave_on_signals()

import importlib.util
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from turnstile.ops.commands import (
    archive,
    cancel,
    dlq,
    doctor,
    halted_session,
    migrate,
    queues,
    redrive,
    serve,
    submit,
    trace,
    turns,
)
from turnstile.ops.terminal.exit_codes import explain
from turnstile.ops.terminal.option_variables import option_variables
from turnstile.ops.terminal.output import say
from turnstile.ops.terminal.wait_option import WaitingCommand


class _Explained(TyperGroup):
    """The root group: whatever ends a command is explained here, never shown as a stack trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            # SIGTERM goes on to end it at once, until `api`, `worker` or `relay` takes it over. All others may be killed
            # at any point: what their closed connections leave uncommitted is rolled back.
            _exchange_handler(signal.SIGINT, _leave, signal.default_int_handler)
            self._name_unknown_variables()
            return super().invoke(ctx)
        except BrokenPipeError:
            # `turnstile list | head`: the reader has enough. Python would complain once more while it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (Exception, KeyboardInterrupt) as error:
            # Typer's own ways to end: usage errors, --help, exit codes.
            if isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "exit_code") or _debugging():
                raise
            code, line = explain(error)
            say(f"turnstile: {line}")
            raise typer.Exit(code) from None

    def _name_unknown_variables(self) -> None:
        options = {*option_variables(self, "TURNSTILE")}
        if not any(name.startswith("TURNSTILE_") and name not in options for name in os.environ):
            return  # without the settings, which take longer to import than all of this file
        from turnstile.config.unknown_variables import describe_unknown_variables

        if (line := describe_unknown_variables(options)) is not None:
            say(f"turnstile: {line}")


# Rich is for tables and progress bars: drawing --help with it takes four times as long as all the rest.
app = typer.Typer(
    name="turnstile",
    cls=_Explained,
    help="An SQS-driven worker with a status table, for the turns of AI chat sessions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "TURNSTILE", "help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import importlib.metadata

        typer.echo(importlib.metadata.version("turnstile"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        # TURNSTILE_VERSION in a deployment's environment means something else.
        typer.Option("--version", callback=_show_version, is_eager=True, allow_from_autoenv=False, help="Show it."),
    ] = False,
) -> None:
    """An SQS-driven worker with a status table, for the turns of AI chat sessions."""


app.command("migrate")(migrate.migrate)
app.command("api")(serve.api)
app.command("worker")(serve.worker)
app.command("relay")(serve.relay)
app.command("submit", cls=WaitingCommand)(submit.submit)
app.command("list")(turns.list_turns)
app.command("status", cls=WaitingCommand)(turns.show_turn)
app.command("trace")(trace.trace)
app.command("cancel")(cancel.cancel)
app.add_typer(dlq.commands, name="dlq")
app.command("redrive")(redrive.redrive)
app.command("retry")(halted_session.retry)
app.command("skip")(halted_session.skip)
app.command("doctor")(doctor.doctor)
app.command("archive")(archive.archive)
app.add_typer(queues.commands, name="queues")
# The image of production does not carry them.
if importlib.util.find_spec("turnstile.ops.dev") is not None:
    from turnstile.ops.dev import commands as dev_commands

    dev_commands.add_to(app)


def main() -> None:
    """The entry point."""
    _leave_on_signals()
    app(prog_name="turnstile")


# For whoever imports this file for something else, as tests do.
_exchange_handler(signal.SIGINT, _leave, signal.default_int_handler)
_exchange_handler(signal.SIGTERM, _leave, signal.SIG_DFL)


def _debugging() -> bool:
    return os.environ.get("TURNSTILE_DEBUG", "") not in {"", "0"}


if __name__ == "__main__":
    main()
