"""What the commands about FAILED turns share: the options of their filter, the question, and the refusals."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.dead_letters.failed_turns import FailedFilter, count_halting, list_failed
from turnstile.ops.sessions.redrive_refusals import why_left_alone
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings
from turnstile.ops.terminal.options import QueueName, SessionId, TenantId, TraceId, parse_age
from turnstile.ops.terminal.output import plural, say, short_duration, short_time
from turnstile.turn.turn_record import TurnRecord

SHOWN_LINES = 10
"""Bad lines of standard input that are named."""

Command = Callable[..., None]

MostTurns = Annotated[int | None, typer.Option("--limit", "-l", min=1, help="At most this many, oldest first.")]


def make_filter(
    queue: QueueName = None,
    turn: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TURN", help="This turn; may be repeated. -: the ids on standard input.", show_default=False
        ),
    ] = None,
    error: Annotated[str | None, typer.Option(help="Only with this error class, as `dlq list` shows it.")] = None,
    tenant: TenantId = None,
    session: SessionId = None,
    older_than: Annotated[
        float | None,
        typer.Option(parser=parse_age, metavar="AGE", help="Only if it failed longer ago: 30m, 36h, 7d."),
    ] = None,
    younger_than: Annotated[
        float | None,
        typer.Option(parser=parse_age, metavar="AGE", help="Only if it failed since then: 30m, 36h, 7d."),
    ] = None,
    trace: TraceId = None,
) -> FailedFilter:
    """The filter of a command line. Its parameters are the options of all commands that filter FAILED turns.

    Reads standard input for `--turn -`. Raises CommandError for a turn id that is not valid.
    """
    return FailedFilter(
        queue=queue,
        turn_ids=read_turn_ids(turn or ()),
        error_class=error,
        tenant_id=tenant,
        session_id=session,
        older_than_seconds=older_than,
        younger_than_seconds=younger_than,
        trace_id=trace,
    )


def takes_filter(*without: str) -> Callable[[Command], Command]:
    """Gives a command the options of `make_filter`, except the named ones.

    They replace its first two parameters, which are the settings and the FailedFilter. A queue that the settings do not
    declare is refused before standard input is read.
    """
    options = [one for one in signature(make_filter).parameters.values() if one.name not in without]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> None:
            settings = load_settings()
            settings.select_queues(given["queue"])
            wanted = make_filter(**{one.name: given.pop(one.name) for one in options})
            command(settings, wanted, **given)

        _, _, *own = signature(command).parameters.values()
        # Typer reads the options of a command from here. By keyword only: an argument has no default and may follow them.
        shown = Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in (*options, *own)])
        run.__signature__ = shown  # type: ignore[attr-defined]
        return run

    return decorate


def read_turn_ids(given: Sequence[str]) -> tuple[UUID, ...]:
    """The ids of `--turn` options; `-` stands for the lines of standard input. Raises CommandError for anything else."""
    named = [one for one in given if one != "-"]
    if bad := [one for one in named if _as_id(one) is None]:
        raise CommandError(f"{bad[0]!r} is not a turn id; nothing was done", ExitCode.USAGE)
    lines = [line.strip() for line in sys.stdin] if len(named) < len(given) else []
    if wrong := [str(number) for number, line in enumerate(lines, 1) if line and _as_id(line) is None]:
        numbers = ", ".join(wrong[:SHOWN_LINES]) + (
            f" and {len(wrong) - SHOWN_LINES} more" if wrong[SHOWN_LINES:] else ""
        )
        raise CommandError(f"standard input: not a turn id in line {numbers}; nothing was done", ExitCode.USAGE)
    found = [_as_id(one) for one in (*named, *lines) if one]
    if len(named) < len(given) and not found:
        raise CommandError("standard input has no turn id; nothing was done", ExitCode.USAGE)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def find_failed(operator: Operator, wanted: FailedFilter, limit: int | None) -> list[TurnRecord]:
    """The matching turns. Says if none matches, how many are left out because they halt their session, and why a named
    turn that does not match is left as it is."""
    failed = await list_failed(operator.database, wanted, limit)
    for turn_id in sorted({*wanted.turn_ids} - {turn.id for turn in failed}):
        reason = await why_left_alone(operator.database, turn_id)
        say(f"{turn_id} {reason or 'does not match the other filters'}: left as it is")
    if not failed and not wanted.turn_ids:
        by = describe_filter(wanted.as_recorded())
        say(
            f"no FAILED turn matches ({by}): turnstile dlq list --groups shows all" if by else "there is no dead letter"
        )
    say_halting(wanted, await count_left_out(operator, wanted))
    return failed


async def count_left_out(operator: Operator, wanted: FailedFilter) -> int:
    """How many matching turns are left out because they halt their session.

    0 if the turns are named, because each has a line of its own, or dropped, because none of those halts.
    """
    return 0 if wanted.turn_ids or wanted.dropped else await count_halting(operator.database, wanted)


def say_halting(wanted: FailedFilter, turns: int) -> None:
    """Says how many matching turns halt their session, if there are any, and which commands are for them."""
    if turns:
        options = {"queue": wanted.queue, "tenant": wanted.tenant_id, "session": wanted.session_id}
        narrowed = "".join(f" --{name} {value}" for name, value in options.items() if value is not None)
        which = "turn halts its session and is" if turns == 1 else "turns halt their sessions and are"
        say(f"{turns} FAILED {which} left out: turnstile list --halting{narrowed}, then turnstile retry or skip")


def describe_failed(failed: Sequence[TurnRecord], wanted: FailedFilter, limit: int | None) -> str:
    """How many turns, by which filter, when they failed, and their classes: for a question."""
    bound = "these are all" if limit is None else f"the oldest {limit} at most"
    which = describe_filter(wanted.as_recorded()) or f"no filter; {bound}"
    classes = ", ".join(f"{name} {turns}" for name, turns in count_classes(failed).most_common(8))
    ends = read_ends(failed)
    return (
        f"{plural(len(failed), 'FAILED turn')} ({which}), "
        f"failed from {short_time(min(ends))} to {short_time(max(ends))}: {classes}"
    )


def describe_filter(recorded: Mapping[str, Any]) -> str:
    """A filter as a record has it, in a few words; empty if it matches all."""
    return ", ".join(_term(name, value) for name, value in recorded.items())


def _term(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        name, value = name.removesuffix("_seconds"), short_duration(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return f"{name.removesuffix('_id').replace('_', ' ')} {value}"


def count_classes(failed: Sequence[TurnRecord]) -> Counter[str]:
    return Counter(turn.error_class or "unknown" for turn in failed)


def read_ends(failed: Sequence[TurnRecord]) -> list[datetime]:
    return [turn.finished_at or turn.created_at for turn in failed]
