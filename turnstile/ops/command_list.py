"""The commands of `turnstile`, and the one place that turns errors into a line and an exit code (`exit_codes.py`).

A command's module is imported when the command runs: a worker does not load the API, and `--help` is fast.

Every option but --yes has an environment variable: a setting has its own name (TURNSTILE_QUEUE), any other option the name of its
command (TURNSTILE_REDRIVE_LIMIT).
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from turnstile import distribution
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode, explain
from turnstile.ops.terminal.options import make_typer
from turnstile.ops.terminal.output import print_text, say
from turnstile.ops.terminal.usage_errors import explain_usage

_PREFIX = "TURNSTILE"

COMMANDS = {
    "migrate": ("ops.migrate_command:migrate", "Bring the database's tables to the version of this program."),
    "grant": ("ops.roles.grant_command:grant", "Give roles of the database what each kind of process needs."),
    "api": ("ops.serve_command:api", "Serve the HTTP API."),
    "worker": ("ops.serve_command:worker", "Answer the turns of a queue."),
    "relay": ("ops.serve_command:relay", "Send what is due, without answering turns."),
    "submit": ("ops.submit.submit_command:submit", "Submit a turn, or with --direct many."),
    "list": ("ops.turns.list_command:list_turns", "List turns, newest first."),
    "status": ("ops.turns.status_command:show_turn", "Show a turn and its attempts."),
    "why": ("ops.why.why_command:why", "Say what a turn waits for."),
    "sessions": ("ops.sessions.sessions_command:sessions", "List the sessions that do not move."),
    "wake": ("ops.sessions.wake_command:wake", "Make a waiting turn due now."),
    "trace": ("ops.turns.trace_command:trace", "Show a trace: which turn started which."),
    "cancel": ("ops.turns.cancel_command:cancel", "Cancel a turn, or all open turns that match."),
    "dlq": ("ops.dead_letters.dlq_command:commands", "Turns that failed for good, and their dead-letter queues."),
    "redrive": ("ops.dead_letters.redrive_command:redrive", "Put FAILED turns back to work."),
    "redrives": (
        "ops.dead_letters.redrives_command:redrives",
        "List redrives, retries, skips and drops, newest first.",
    ),
    "audit": ("ops.audit.audit_command:audit", "List who did what, newest first."),
    "retry": ("ops.sessions.retry_and_skip_command:retry", "Run again a turn that halts its session."),
    "skip": ("ops.sessions.retry_and_skip_command:skip", "Pass over a turn that halts its session."),
    "top": ("ops.top.top_command:top", "Show throughput, workers and failures, live."),
    "doctor": ("ops.doctor.doctor_command:doctor", "Check a live system."),
    "archive": ("ops.archive_command:archive", "Move the turns of sessions at rest into the archive."),
    "erase": ("ops.erase_command:erase", "Erase all that a session or a tenant has said and was told."),
    "reseal": ("ops.reseal.reseal_command:reseal", "Bring stored contents under the key that seals."),
    "queues": ("ops.queues.queues_command:commands", "The declared SQS queues: list, pause, resume, create."),
    "key": ("ops.keys.key_command:commands", "The API's keys: create, list, rotate, revoke."),
    "limits": ("ops.limits.limits_command:commands", "The limits that hold for all workers: list, set, clear."),
    "webhook-secret": (
        "ops.webhooks.webhook_secret_command:commands",
        "The secrets that sign each tenant's webhooks: show, list, rotate, revoke.",
    ),
    "workers": (
        "ops.workers.workers_command:workers",
        "List the worker processes, their states, and the turns that they run.",
    ),
    "stats": (
        "ops.stats.stats_command:stats",
        "Show how many turns have ended recently, how they ended, and how long they waited and ran.",
    ),
    "completion": ("ops.completion_command:completion", "Print the completion script of a shell."),
}
"""The module (in `turnstile`) and the name of each command or group, and its line in `turnstile --help`."""

_PRINTS_NOTHING = {"api", "worker", "relay"}
"""They only log, on standard error."""

# The production image does not contain them.
if importlib.util.find_spec("turnstile.dev") is not None:
    COMMANDS |= {
        "local": ("dev.local_command:commands", "The embedded stack: PostgreSQL, Redis and SQS on loopback."),
        "new": ("dev.new.new_command:new", "Write a small project to begin with."),
        "dev": ("dev.dev_command:dev", "Run a handler while you write it: stack, API, page, worker, reload."),
        "demo": ("dev.demo.run:demo", "Run a demonstration of the whole system, with a check at the end."),
    }


class LazyCommand(TyperCommand):
    """A placeholder for a command or group whose module is not imported yet."""

    def __init__(self, name: str, where: str, help: str) -> None:  # noqa: A002 - the name is the base class's
        super().__init__(name, help=help, rich_markup_mode=None)
        self._where = where

    def load(self) -> Any:
        """Imports the module and returns the real command."""
        module, _, name = self._where.partition(":")
        found = getattr(importlib.import_module(f"turnstile.{module}"), name)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = make_typer()
        alone.command(self.name)(found)
        return get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Explains an error that ends a command in one line, without a stack trace."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if (line := explain_usage(error)) is not None:
            say(f"turnstile: {line}")
            raise typer.Exit(ExitCode.USAGE) from None
        # Typer's own: --help, exit codes, and a reader that has closed the pipe (`turnstile list | head`).
        own = isinstance(error, typer.Exit | typer.Abort | BrokenPipeError) or hasattr(error, "exit_code")
        if own or os.environ.get("TURNSTILE_DEBUG", "") not in {"", "0"}:
            raise
        code, line = explain(error)
        say(f"turnstile: {line}")
        raise typer.Exit(code) from None


class _Root(TyperGroup):
    """All commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: LazyCommand(name, where, line) for name, (where, line) in COMMANDS.items()}

    def main(self, *given: Any, **named: Any) -> Any:
        # Typer knows the shells only after it was asked for its own two options. We do not show them, because
        # `--install-completion` would write into the user's files: `turnstile completion` prints the script.
        get_completion_inspect_parameters()
        return super().main(*given, **named)

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **named: Any) -> Any:
        with _in_one_line():
            if sys.stdout is None and not _PRINTS_NOTHING & {*args[:1]}:
                raise CommandError("standard output is closed: send it to a file, or to /dev/null", ExitCode.USAGE)
            return super().make_context(info_name, args, *given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _in_one_line():
            self._name_unknown_variables()
            return super().invoke(ctx)

    def _name_unknown_variables(self) -> None:
        given = [name for name in os.environ if name.startswith(f"{_PREFIX}_")]
        if not given:
            return  # the import of the settings is slower than this whole file
        from turnstile.config.unknown_variables import describe_unknown_variables

        if (line := describe_unknown_variables({*self._options_of(given)})) is not None:
            say(f"turnstile: {line}")

    def _options_of(self, given: list[str]) -> Iterator[str]:
        # Imports only the commands that one of these variables names.
        for name, command in self.commands.items():
            prefix = f"{_PREFIX}_{name.replace('-', '_').upper()}"
            if any(one.startswith(f"{prefix}_") for one in given):
                yield from option_variables(command, prefix)


def option_variables(command: Any, prefix: str = _PREFIX) -> Iterator[str]:
    """The environment variables of the options of a command and all its subcommands."""
    loaded = command.load() if isinstance(command, LazyCommand) else command
    for parameter in loaded.params:
        if not getattr(parameter, "allow_from_autoenv", True):
            continue
        own = parameter.envvar or f"{prefix}_{parameter.name.upper()}"
        yield from [own] if isinstance(own, str) else own
    for name, below in getattr(loaded, "commands", {}).items():
        yield from option_variables(below, f"{prefix}_{name.replace('-', '_').upper()}")


app = make_typer(
    name="turnstile",
    cls=_Root,
    help="An SQS-driven worker with a status table, for the turns of AI chat sessions.",
    no_args_is_help=True,
    context_settings={"auto_envvar_prefix": _PREFIX, "help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import importlib.metadata

        print_text(importlib.metadata.version(distribution.NAME))
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
