"""Options that several commands share, as annotations of their parameters, and the question that `--yes` answers."""

import re
import sys
from typing import Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import say, short_duration

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
_UNITS = {"s": 1, "m": 60, "h": HOUR_SECONDS, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS}
_AGE = re.compile(r"([0-9]{1,4})([smhdw])")


def parse_age(text: str | float) -> float:
    """Parses an age such as `90s`, `15m` (minutes), `36h`, `7d` or `12w` to seconds. A float is a default, in seconds."""
    if isinstance(text, float):
        return text
    found = _AGE.fullmatch(text.strip().lower())
    if found is None or found[1].strip("0") == "":
        raise typer.BadParameter(f"{text!r} is not an age; try 90s, 15m, 36h, 7d or 12w")
    return float(int(found[1]) * _UNITS[found[2]])


def parse_rate(text: str | float) -> float:
    """Parses a rate such as `5`, `0.5` or `5/s` to turns a second."""
    try:
        rate = float(str(text).removesuffix("/s"))
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e6:
        raise typer.BadParameter(f"{text!r} is not a rate; try 5 or 5/s")
    return rate


def parse_trace_id(text: str) -> str:
    """Parses a trace id."""
    if re.fullmatch(r"[0-9a-f]{32}", text) is None:
        raise typer.BadParameter(f"{text!r} is not a trace id; give its 32 hex digits")
    return text


def age_option(meaning: str, default_seconds: float) -> Any:
    """An option with an age; the parameter has the same default."""
    shown = f"{meaning}  [default: {short_duration(default_seconds)}]"
    return typer.Option(parser=parse_age, metavar="AGE", show_default=False, help=shown)


def since_option(default_seconds: float) -> Any:
    """How far back a command counts the ends of turns."""
    return age_option("The turns that ended within this time: 15m, 1h, 2d.", default_seconds)


TurnId = Annotated[UUID, typer.Argument(metavar="TURN")]
QueueName = Annotated[str | None, typer.Option("--queue", "-q", help="Only of this queue.")]
SessionId = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
TenantId = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.")]
TraceId = Annotated[
    str | None,
    typer.Option(
        "--trace", parser=parse_trace_id, metavar="TRACE", help="Only of this trace, the present one or an earlier one."
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-l", min=1, max=1_000_000, help="At most this many.")]
Rate = Annotated[float | None, typer.Option(parser=parse_rate, metavar="N/s", help="At most this many a second.")]
WaitSeconds = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        max=DAY_SECONDS,
        help="Wait this long for the turn to end. The exit code is then 1 unless it has SUCCEEDED.",
    ),
]
ShowText = Annotated[bool, typer.Option("--show-text", help="Show the messages of the turn, too.")]
Malformed = Annotated[
    bool, typer.Option("--malformed", help="The messages that can't be read, in place of turns; with --queue only.")
]
Pause = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        show_default=False,
        help="Seconds between statements.  [default: as long as one took]",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")]
# Not from the environment: a forgotten variable would answer every later question.
Yes = Annotated[bool, typer.Option("--yes", "-y", allow_from_autoenv=False, help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document for programs; after an error there is none.")]


def confirm(question: str, *, yes: bool) -> None:
    """Raises CommandError unless the operator confirms or gave --yes. Without a terminal and --yes, raises at once.

    Call it outside of any event loop: inside one, Ctrl-C would only cancel the task that waits for the keyboard.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} There is no terminal to answer: give --yes", ExitCode.USAGE)
    say(f"{question} [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")


def make_typer(**attributes: Any) -> typer.Typer:
    """A Typer as all commands use it: without Rich, with which --help takes four times as long as everything else."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **attributes)
