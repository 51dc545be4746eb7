"""`turnstile redrive`: asks for confirmation, prints the result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any
from uuid import UUID

import typer

from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.dlq_messages import LetterKind
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.filter_options import (
    MostTurns,
    count_classes,
    describe_failed,
    find_failed,
    read_ends,
    takes_filter,
)
from turnstile.ops.dead_letters.redrive import Pace, Redrive, RedriveObserver, RedriveResult
from turnstile.ops.dead_letters.stop_rule import CANARY_SHARE, CANARY_WAIT_SECONDS, Ends, GoOn, Stop
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, operate
from turnstile.ops.terminal.options import AsJson, DryRun, Rate, Yes, confirm
from turnstile.ops.terminal.output import Progress, plural, print_json, print_text, say, short_duration
from turnstile.statements.paused_queues import PausedQueue, read_paused_queues
from turnstile.turn.turn_record import TurnRecord

SHOWN_OPEN = 5
"""Turns of the canary that are named if they have not ended."""


@takes_filter()
def redrive(
    settings: Settings,
    wanted: FailedFilter,
    limit: MostTurns = None,
    rate: Rate = None,
    canary: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help=f"Put N turns back first; the others only if {CANARY_SHARE:.0%} of these succeed "
            f"within {short_duration(CANARY_WAIT_SECONDS)}.",
        ),
    ] = 0,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put FAILED turns back to work, at the end of their sessions, and tidy up their dead letters.

    You can stop it at any point and run it again; two at once do no harm. It stops by itself (exit code 1) when at least half of
    the turns that ended last have failed again. `turnstile redrives` lists what was done. The exit code is 0 also if no turn
    matches a filter, and 1 if none of the turns named by --turn is put back.

    --json: dry_run, matched, by_error_class, oldest and newest (times of their failures), redrive_id, revived (how many),
    turn_ids, moved_on (no longer FAILED), compensated (left alone, for their compensation), undeclared (left alone, by queue),
    sent and unsent (wake-ups; a relay sends the unsent ones), letters (messages of the DLQs, by kind), swept and unswept
    (obsolete ones, deleted and not deleted), unswept_queues, stopped (why it stopped by itself), not_tried, ended (succeeded,
    failed by error class, canceled, open: when it last looked).
    """
    pace = Pace(rate=rate, canary=canary)
    failed, paused = operate(settings, _find, wanted, limit)
    _refuse_or_warn(failed, paused, pace)
    if failed and not dry_run:
        confirm(f"{describe_failed(failed, wanted, limit)}. Put them back to work?", yes=yes)
    result = None if dry_run else operate(settings, _redrive, wanted, failed, pace)
    document = as_document(failed, result)
    if as_json:
        print_json(document)
    elif result is not None:
        _print(failed, result)
    elif failed:
        print_text(f"would put back {describe_failed(failed, wanted, limit)}")
    if result is not None:
        _explain(result)
        if result.stopped is not None:
            raise CommandError(f"stopped, with {plural(result.not_tried, 'turn')} left FAILED: {result.stopped}")
        if result.undeclared:
            raise typer.Exit(ExitCode.FAILED)
    if wanted.turn_ids and not document["turn_ids"]:
        raise typer.Exit(ExitCode.FAILED)


async def _find(
    operator: Operator, wanted: FailedFilter, limit: int | None
) -> tuple[list[TurnRecord], Mapping[str, PausedQueue]]:
    return await find_failed(operator, wanted, limit), await read_paused_queues(operator.database)


def _refuse_or_warn(failed: list[TurnRecord], paused: Mapping[str, PausedQueue], pace: Pace) -> None:
    """Raises CommandError for a canary in a paused queue: its turns would not end."""
    for queue, turns in sorted(Counter(turn.queue for turn in failed if turn.queue in paused).items()):
        by, resume = f"queue {queue} is paused by {paused[queue].paused_by}", f"turnstile queues resume {queue}"
        if pace.canary:
            raise CommandError(f"{by}: resume it first: {resume}")
        say(f"{by}: turns put back wait for the resume ({turns}): {resume}")
    if failed and pace.canary >= len(failed):
        say(
            f"the canary is all {plural(len(failed), 'turn')}: nothing waits for its end. Look later with turnstile dlq list"
        )


async def _redrive(operator: Operator, wanted: FailedFilter, failed: list[TurnRecord], pace: Pace) -> RedriveResult:
    redrive = Redrive(
        operator.database,
        operator.queues,
        operator.settings,
        requested_by=operator.name,
        observer=PrintedRedrive(),
    )
    return await redrive.run(wanted, failed, pace)


class PrintedRedrive(RedriveObserver):
    """Prints how far a redrive is, on standard error."""

    def __init__(self) -> None:
        self._progress = Progress()

    def put_back(self, result: RedriveResult, turns: int) -> None:
        self._progress.say(f"{len(result.revived)} of {plural(turns, 'turn')} put back; of these {result.ended}")

    def broken_off(self, result: RedriveResult, turns: int) -> None:
        say(f"broken off: {len(result.revived)} of {plural(turns, 'turn')} put back")

    def canary_put_back(self, canary: Ends) -> None:
        waits = f"waiting up to {short_duration(CANARY_WAIT_SECONDS)} for the canary to end"
        say(f"canary: {plural(canary.total, 'turn')} put back; {waits}")

    def canary_looked_at(self, canary: Ends) -> None:
        self._progress.say(f"canary: {canary}")

    def canary_decided(self, canary: Ends, verdict: GoOn | Stop, open_ids: Sequence[UUID]) -> None:
        if isinstance(verdict, GoOn):
            say(f"canary: {canary}")
        if open_ids:
            named = ", ".join(map(str, open_ids[:SHOWN_OPEN]))
            more = f" and {len(open_ids) - SHOWN_OPEN} more" if open_ids[SHOWN_OPEN:] else ""
            say(f"canary: not ended yet: {named}{more}; see turnstile why {open_ids[0]}")


def as_document(failed: list[TurnRecord], result: RedriveResult | None) -> dict[str, Any]:
    """The JSON document. The same keys with and without --dry-run; `turn_ids` are the revived turns, or the matching ones."""
    done = RedriveResult() if result is None else result
    ends = read_ends(failed)
    return {
        "dry_run": result is None,
        "matched": len(failed),
        "by_error_class": count_classes(failed),
        "oldest": min(ends, default=None),
        "newest": max(ends, default=None),
        **{field.name: getattr(done, field.name) for field in fields(done)},
        "revived": len(done.revived),
        "turn_ids": [turn.id for turn in failed] if result is None else done.revived,
    }


def _print(failed: list[TurnRecord], result: RedriveResult) -> None:
    """What was done. What is left to know is for `_explain`, and a stop's reason for the error at the end."""
    if failed:
        ended = f"; so far {result.ended}" if result.ended.total and result.stopped is None else ""
        number = f"redrive {result.redrive_id}: " if result.redrive_id is not None else ""
        print_text(f"{number}{len(result.revived)} of {plural(len(failed), 'turn')} put back to work{ended}")
    if result.swept:
        print_text(f"{plural(result.swept, 'obsolete dead letter')} deleted")
    if failed and (still_dead := result.letters[LetterKind.STILL_DEAD]):
        print_text(f"{plural(still_dead, 'dead letter')} left on the dead-letter queues: their turns are still FAILED")


def _explain(result: RedriveResult) -> None:
    if result.moved_on:
        say(f"{plural(result.moved_on, 'turn')} left alone: no longer FAILED, or put back by another command meanwhile")
    if result.compensated:
        say(
            f"{plural(result.compensated, 'turn')} left alone: the compensation has not ended yet (redrive when it has), "
            "or it is the compensation of a turn that was put back to work"
        )
    if result.unsent:
        say(
            f"SQS did not take {plural(result.unsent, 'wake-up')}: a relay sends what is missing, you need not do anything"
        )
    if result.unswept:
        say(f"SQS did not delete {plural(result.unswept, 'dead letter')}, now obsolete; the next redrive does it")
    if result.unswept_queues:
        say(
            f"SQS is away: the dead letters of {', '.join(result.unswept_queues)} are not swept; the next redrive does it"
        )
    for kind, which in (
        (LetterKind.MALFORMED, "that can't be read"),
        (LetterKind.UNKNOWN_TURN, "of unknown turns"),
    ):
        if left := result.letters[kind]:
            say(f"{plural(left, 'message')} {which} left on the dead-letter queue: see turnstile dlq list --messages")
    for queue, turns in result.undeclared.items():
        say(f"{plural(turns, 'turn')} of queue {queue!r} left alone: these settings do not declare it")
