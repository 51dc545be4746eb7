"""What the commands about FAILED turns have in common: the ids on standard input, the question, the refusals."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.ops.dead_letters.failed_turns import FailedFilter, count_halting, list_failed
from turnstile.ops.sessions.redrive_refusals import why_left_alone
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.terminal.output import many, say, short_duration, short_time
from turnstile.queries.turns import TurnRecord

SHOWN_LINES = 10
"""Bad lines of standard input that are named."""


def read_turn_ids(given: Sequence[str]) -> tuple[UUID, ...]:
    """The ids of `--turn` options; `-` stands for the lines of standard input. Raises CommandError for what is no id."""
    named = [one for one in given if one != "-"]
    if bad := [one for one in named if _as_id(one) is None]:
        raise CommandError(f"{bad[0]!r} is no turn id; nothing was done", ExitCode.USAGE)
    lines = [line.strip() for line in sys.stdin] if len(named) < len(given) else []
    if wrong := [str(number) for number, line in enumerate(lines, 1) if line and _as_id(line) is None]:
        numbers = ", ".join(wrong[:SHOWN_LINES]) + (
            f" and {len(wrong) - SHOWN_LINES} more" if wrong[SHOWN_LINES:] else ""
        )
        raise CommandError(f"standard input: no turn id in line {numbers}; nothing was done", ExitCode.USAGE)
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
    """The matching turns. Says if there are none, how many are left out because they halt their session, and of each named turn
    that is none of them why it is left as it is."""
    failed = await list_failed(operator.database, wanted, limit)
    for turn_id in sorted({*wanted.turn_ids} - {turn.id for turn in failed}):
        reason = await why_left_alone(operator.database, turn_id)
        say(f"{turn_id} {reason or 'does not match the other filters'}: left as it is")
    if not failed and not wanted.turn_ids:
        by = describe_filter(wanted.as_recorded())
        say(f"no FAILED turn matches ({by}): turnstile dlq list --groups has all" if by else "there is no dead letter")
    say_halting(wanted, await count_left_out(operator, wanted))
    return failed


async def count_left_out(operator: Operator, wanted: FailedFilter) -> int:
    """How many matching turns are no dead letters because they halt their session.

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
    """How many, by which filter, of when, and of which classes: for a question."""
    bound = "these are all" if limit is None else f"the oldest {limit} at most"
    which = describe_filter(wanted.as_recorded()) or f"no filter; {bound}"
    classes = ", ".join(f"{name} {turns}" for name, turns in count_classes(failed).most_common(8))
    ends = read_ends(failed)
    return (
        f"{many(len(failed), 'FAILED turn')} ({which}), "
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
