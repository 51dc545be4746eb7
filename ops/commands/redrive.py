"""`turnstile redrive`: asks for confirmation, shows progress, prints the result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.commands.halted_session import find_archived, why_not_again
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.input import confirm
from turnstile.ops.terminal.output import AsJson, print_fields, print_json, progress, say, short_time

if TYPE_CHECKING:
    from turnstile.backends.postgres.database import Database
    from turnstile.config.settings import Settings
    from turnstile.ops.dead_letters.redrive import RedriveResult, Survey
    from turnstile.queries.failed_turns import FailedFilter


def parse_rate(text: str | float) -> float:
    """Parses a rate such as `5`, `0.5` or `5/s` to turns a second."""
    try:
        rate = float(str(text).removesuffix("/s"))
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e6:
        raise typer.BadParameter(f"{text!r} is no rate; try 5 or 5/s")
    return rate


def redrive(
    queue: Annotated[str | None, typer.Option()] = None,
    turn: Annotated[list[UUID] | None, typer.Option(help="This turn; may be repeated.", show_default=False)] = None,
    error: Annotated[str | None, typer.Option(help="The error's class, as `dlq list` shows it.")] = None,
    tenant: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, help="At most so many, oldest first.")] = None,
    rate: Annotated[
        float | None, typer.Option(parser=parse_rate, metavar="N/s", help="At most so many a second.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put FAILED turns back to work, at the end of their sessions, and tidy up their dead letters.

    Can be stopped at any point and run again; two at once do no harm.
    """
    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.queries.failed_turns import FailedFilter

    settings = load_settings()
    if queue is not None:
        settings.find_queue(queue)
    wanted = FailedFilter(queue=queue, turn_ids=tuple(turn or ()), error_class=error, tenant_id=tenant)
    survey = run(_survey(settings, wanted, limit))
    result = None
    if not dry_run:
        if survey.candidates:
            # Outside of any event loop: inside one, Ctrl-C would only cancel the task that waits for the keyboard.
            confirm(_question(survey), yes=yes)
        result = run(_redrive(settings, wanted, survey, rate))
    document = as_document(survey, result)
    if as_json:
        print_json(document)
    else:
        print_fields({name: _short(value) for name, value in document.items()})
    if result is not None:
        _explain(result)
        if result.undeclared:
            raise typer.Exit(ExitCode.FAILED)


async def _survey(settings: "Settings", wanted: "FailedFilter", limit: int | None) -> "Survey":
    from turnstile.ops.dead_letters.redrive import find_candidates
    from turnstile.ops.terminal.operator_access import operator_database

    async with operator_database(settings) as database:
        survey = await find_candidates(database, wanted, limit=limit)
        await _report_others(database, wanted.turn_ids, survey)
    return survey


async def _redrive(
    settings: "Settings", wanted: "FailedFilter", survey: "Survey", rate: float | None
) -> "RedriveResult":
    from turnstile.message_queue import MessageQueues
    from turnstile.ops.dead_letters.redrive import Redrive
    from turnstile.ops.terminal.operator_access import operator_database

    queues = MessageQueues(settings)
    try:
        async with operator_database(settings) as database:
            with progress() as begin:
                return await Redrive(database, queues, settings).run(
                    wanted,
                    survey,
                    rate=rate,
                    report=begin("putting back", "turns"),
                    report_sweep=begin("sweeping", "letters"),
                )
    finally:
        await queues.close()


async def _report_others(database: "Database", named: Sequence[UUID], survey: "Survey") -> None:
    from turnstile.statements.halt import read_halt

    unknown: list[str] = []
    for turn_id in sorted(set(named) - {candidate.id for candidate in survey.candidates}):
        halt = await read_halt(database, turn_id)
        if halt is None:
            if (archived := await find_archived(database, turn_id)) is None:
                unknown.append(str(turn_id))
            else:
                say(f"{archived}; left as it is")
        elif reason := why_not_again(halt):
            say(f"{turn_id} {reason}; left as it is")
        else:
            why = " and halts its session, see turnstile retry and skip" if halt.halts else ""
            say(f"{turn_id} is {halt.status}{why}: left as it is")
    if unknown:
        raise CommandError(f"there is no turn {', '.join(unknown)}; nothing was changed", ExitCode.NOT_FOUND)


def as_document(survey: "Survey", result: "RedriveResult | None") -> dict[str, Any]:
    """The JSON document. The same keys with and without --dry-run; `turn_ids` are the revived turns, or the matching ones."""
    from turnstile.ops.dead_letters.redrive import RedriveResult

    done = RedriveResult() if result is None else result
    return {
        "dry_run": result is None,
        "matched": len(survey.candidates),
        "by_error_class": dict(survey.by_error_class),
        "oldest": survey.oldest,
        "newest": survey.newest,
        "redrive_id": done.redrive_id,
        "revived": len(done.revived),
        "moved_on": done.moved_on,
        "compensated": done.compensated,
        "sent": done.sent,
        "unsent": done.unsent,
        "undeclared": dict(done.undeclared),
        "swept": done.swept,
        "unswept": done.unswept,
        "letters": dict(done.letters),
        "unswept_queues": done.unswept_queues,
        "turn_ids": [candidate.id for candidate in survey.candidates] if result is None else done.revived,
    }


def _question(survey: "Survey") -> str:
    classes = ", ".join(f"{name} {many}" for name, many in survey.by_error_class.most_common(8))
    return (
        f"{len(survey.candidates)} FAILED turns, of {short_time(survey.oldest)} to {short_time(survey.newest)} "
        f"({classes}). Put them back to work?"
    )


def _explain(result: "RedriveResult") -> None:
    if result.compensated:
        say(
            f"{result.compensated} turns were left alone: their compensation has not ended yet (redrive them when it has), "
            "or they are compensations of turns that were put back to work"
        )
    if result.unsent:
        say(f"SQS did not take {result.unsent} wake-ups: the relay sends them, nothing is to be done")
    if result.unswept:
        say(f"SQS did not delete {result.unswept} dead letters of turns that have moved on; the next redrive does it")
    if result.unswept_queues:
        say(f"not swept, SQS is away: {', '.join(result.unswept_queues)}; the next redrive does it")
    if result.letters.get("malformed"):
        say(
            f"{result.letters['malformed']} malformed messages stay on the dead-letter queue: turnstile dlq list --messages"
        )
    for queue, many in result.undeclared.items():
        say(f"{many} turns of queue {queue!r} were left alone: these settings do not declare it")


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{name} {many}" for name, many in value.items()) or None
    if isinstance(value, list):
        return ", ".join(map(str, value[:3])) + (f" and {len(value) - 3} more" if len(value) > 3 else "") or None
    return value
