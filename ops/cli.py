"""The command `turnstile`: its groups, and the one place that turns errors into a line and an exit code (`exit_codes.py`).

This file imports no database, AWS or HTTP code. Each command imports what it needs when it runs, so that `--help` is fast and a
worker does not load the API.

Every option has an environment variable: a setting has its own name (TURNSTILE_QUEUE), any other option the name of its command
(TURNSTILE_REDRIVE_LIMIT).
"""

# ruff: noqa: E402 - a Ctrl-C may arrive during the slow imports
import os
import signal
import sys
import threading


def _exchange_handler(number: signal.Signals, was: "Any", now: "Any") -> None:
    # Replaces only the expected handler: a process that ignores SIGINT (`turnstile api &` in a script) must still ignore it.
    # Only the main thread may set signal handlers.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is was:
        signal.signal(number, now)


def _leave(number: int, _: object) -> None:
    # No work has started, so there is nothing to clean up or report.
    os._exit(128 + number)


def _leave_on_signals() -> None:
    _exchange_handler(signal.SIGINT, signal.default_int_handler, _leave)
    # The default action does not work in a container: for process 1, the kernel ignores a signal without a handler. A worker that
    # was stopped while it loaded its turn handler continued, took turns, and was later killed with them.
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
    """The root group: explains every error that ends a command in one line, without a stack trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            # SIGTERM still ends the process at once, until `api`, `worker` or `relay` installs its own handler. All other
            # commands may be killed at any point: Postgres rolls back uncommitted work.
            _exchange_handler(signal.SIGINT, _leave, signal.default_int_handler)
            self._name_unknown_variables()
            return super().invoke(ctx)
        except BrokenPipeError:
            # `turnstile list | head`: the reader closed the pipe. Without this, Python would report the error again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (Exception, KeyboardInterrupt) as error:
            # Typer's own exceptions: usage errors, --help, exit codes.
            if isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "exit_code") or _debugging():
                raise
            code, line = explain(error)
            say(f"turnstile: {line}")
            raise typer.Exit(code) from None

    def _name_unknown_variables(self) -> None:
        options = {*option_variables(self, "TURNSTILE")}
        if not any(name.startswith("TURNSTILE_") and name not in options for name in os.environ):
            return  # the import of the settings is slower than this whole file
        from turnstile.config.unknown_variables import describe_unknown_variables

        if (line := describe_unknown_variables(options)) is not None:
            say(f"turnstile: {line}")


# Rich is only for tables and progress bars: --help with Rich takes four times as long as everything else.
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
        # TURNSTILE_VERSION has another meaning in a deployment's environment.
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
# The production image does not contain them.
if importlib.util.find_spec("turnstile.ops.dev") is not None:
    from turnstile.ops.dev import commands as dev_commands

    dev_commands.add_to(app)


def main() -> None:
    """The entry point of the `turnstile` command."""
    _leave_on_signals()
    app(prog_name="turnstile")


# For tests and other code that imports this file: restores the handlers.
_exchange_handler(signal.SIGINT, _leave, signal.default_int_handler)
_exchange_handler(signal.SIGTERM, _leave, signal.SIG_DFL)


def _debugging() -> bool:
    return os.environ.get("TURNSTILE_DEBUG", "") not in {"", "0"}


if __name__ == "__main__":
    main()
