"""`turnstile redrive`: asks for confirmation, prints the result."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.filter_options import (
    MostTurns,
    count_classes,
    describe_failed,
    find_failed,
    read_ends,
    takes_filter,
)
from turnstile.ops.dead_letters.letter import LetterKind
from turnstile.ops.dead_letters.redrive import CANARY_WAIT_SECONDS, Pace, Redrive, RedriveResult
from turnstile.ops.dead_letters.stop_rule import LEAST_ENDED, STOP_SHARE, WINDOW
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, operate
from turnstile.ops.terminal.options import AsJson, DryRun, Rate, Yes, age_option, confirm
from turnstile.ops.terminal.output import many, print_json, print_text, say
from turnstile.queries.turns import TurnRecord
from turnstile.statements.paused_queues import PausedQueue, read_paused_queues


@takes_filter()
def redrive(
    settings: Settings,
    wanted: FailedFilter,
    limit: MostTurns = None,
    rate: Rate = None,
    canary: Annotated[
        int, typer.Option(min=0, metavar="N", help="Put N turns back first; the others only if enough of them succeed.")
    ] = 0,
    canary_success: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="How many of the canary are enough.")
    ] = 0.9,
    canary_wait: Annotated[
        float, age_option("How long to wait for the ends of the canary.", CANARY_WAIT_SECONDS)
    ] = CANARY_WAIT_SECONDS,
    stop_at: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help=f"Stop when this share of the last {WINDOW} ends ({LEAST_ENDED} at least) is failures again; 0: never.",
        ),
    ] = STOP_SHARE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put FAILED turns back to work, at the end of their sessions, and tidy up their dead letters.

    Can be stopped at any point and run again; two at once do no harm. Stops by itself (exit code 1) when the turns that it has
    put back fail again. `turnstile redrives` lists what was done. Exit code 0 also if no turn matches a filter, 1 if of
    turns named by --turn none is put back.

    --json: dry_run, matched, by_error_class, oldest and newest (times of their failures), redrive_id, revived (how many),
    turn_ids, moved_on (no longer FAILED), compensated (left alone, for their compensation), undeclared (left alone, by queue),
    sent and unsent (wake-ups; a relay sends the unsent ones), letters (messages of the DLQs, by kind), swept and unswept
    (obsolete ones, deleted and not deleted), unswept_queues, stopped (why it stopped by itself), not_tried, ended (succeeded,
    failed by error class, canceled, open: when it last looked).
    """
    pace = Pace(
        rate=rate,
        canary=canary,
        canary_share=canary_success,
        canary_wait_seconds=canary_wait,
        stop_share=stop_at,
    )
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
            raise CommandError(f"stopped, with {many(result.not_tried, 'turn')} left FAILED: {result.stopped}")
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
            f"the canary is all {many(len(failed), 'turn')}: nothing waits for its end. Look later with turnstile dlq list"
        )


async def _redrive(operator: Operator, wanted: FailedFilter, failed: list[TurnRecord], pace: Pace) -> RedriveResult:
    return await Redrive(operator.database, operator.queues, operator.settings).run(wanted, failed, pace)


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
        print_text(f"{number}{len(result.revived)} of {many(len(failed), 'turn')} put back to work{ended}")
    if result.swept:
        print_text(f"{many(result.swept, 'obsolete dead letter')} deleted")
    if failed and (still_dead := result.letters[LetterKind.STILL_DEAD]):
        print_text(f"{many(still_dead, 'dead letter')} left on the dead-letter queues: their turns are still FAILED")


def _explain(result: RedriveResult) -> None:
    if result.moved_on:
        say(f"{many(result.moved_on, 'turn')} left alone: no longer FAILED, or put back by another command meanwhile")
    if result.compensated:
        say(
            f"{many(result.compensated, 'turn')} left alone: the compensation has not ended yet (redrive when it has), "
            "or it is the compensation of a turn that was put back to work"
        )
    if result.unsent:
        say(
            f"SQS did not take {many(result.unsent, 'wake-up')}: a relay sends what is missing, you need not do anything"
        )
    if result.unswept:
        say(f"SQS did not delete {many(result.unswept, 'dead letter')}, now obsolete; the next redrive does it")
    if result.unswept_queues:
        say(
            f"SQS is away: the dead letters of {', '.join(result.unswept_queues)} are not swept; the next redrive does it"
        )
    for kind, which in (
        (LetterKind.MALFORMED, "that can't be read"),
        (LetterKind.UNKNOWN_TURN, "about no known turn"),
    ):
        if left := result.letters[kind]:
            say(f"{many(left, 'message')} {which} left on the dead-letter queue: see turnstile dlq list --messages")
    for queue, turns in result.undeclared.items():
        say(f"{many(turns, 'turn')} of queue {queue!r} left alone: these settings do not declare it")
