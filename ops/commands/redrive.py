"""`turnstile redrive`: asks for confirmation, prints the result."""

from collections import Counter
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.dead_letters.redrive import Redrive, RedriveResult
from turnstile.ops.dead_letters.redrive_refusals import why_left_alone
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, DryRun, ErrorClass, QueueName, Rate, TenantId, Yes, confirm
from turnstile.ops.terminal.output import print_fields, print_json, say, short_time
from turnstile.queries.failed_turns import FailedFilter, list_failed
from turnstile.queries.turns import TurnRecord


def redrive(
    queue: QueueName = None,
    turn: Annotated[list[UUID] | None, typer.Option(help="This turn; may be repeated.", show_default=False)] = None,
    error: ErrorClass = None,
    tenant: TenantId = None,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, help="At most this many, oldest first.")] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put FAILED turns back to work, at the end of their sessions, and tidy up their dead letters.

    Can be stopped at any point and run again; two at once do no harm.
    """
    settings = load_settings()
    if queue is not None:
        settings.find_queue(queue)
    wanted = FailedFilter(queue=queue, turn_ids=tuple(turn or ()), error_class=error, tenant_id=tenant)
    failed = operate(settings, _find, wanted, limit)
    if failed and not dry_run:
        confirm(_question(failed), yes=yes)
    result = None if dry_run else operate(settings, _redrive, wanted, failed, rate)
    document = as_document(failed, result)
    if as_json:
        print_json(document)
    else:
        print_fields({name: value for name, value in document.items() if name != "turn_ids"})
    if result is not None:
        _explain(result)
        if result.undeclared:
            raise typer.Exit(ExitCode.FAILED)


async def _find(operator: Operator, wanted: FailedFilter, limit: int | None) -> list[TurnRecord]:
    failed = await list_failed(operator.database, wanted, limit)
    for turn_id in sorted({*wanted.turn_ids} - {turn.id for turn in failed}):
        reason = await why_left_alone(operator.database, turn_id)
        say(f"{turn_id} {reason or 'does not match the other filters'}: left as it is")
    return failed


async def _redrive(
    operator: Operator, wanted: FailedFilter, failed: list[TurnRecord], rate: float | None
) -> RedriveResult:
    return await Redrive(operator.database, operator.queues, operator.settings).run(wanted, failed, rate=rate)


def as_document(failed: list[TurnRecord], result: RedriveResult | None) -> dict[str, Any]:
    """The JSON document. The same keys with and without --dry-run; `turn_ids` are the revived turns, or the matching ones."""
    done = RedriveResult() if result is None else result
    ends = _ends(failed)
    return {
        "dry_run": result is None,
        "matched": len(failed),
        "by_error_class": _classes(failed),
        "oldest": min(ends, default=None),
        "newest": max(ends, default=None),
        **{field.name: getattr(done, field.name) for field in fields(done)},
        "revived": len(done.revived),
        "turn_ids": [turn.id for turn in failed] if result is None else done.revived,
    }


def _question(failed: list[TurnRecord]) -> str:
    classes = ", ".join(f"{name} {many}" for name, many in _classes(failed).most_common(8))
    ends = _ends(failed)
    return (
        f"{len(failed)} FAILED turns, of {short_time(min(ends))} to {short_time(max(ends))} ({classes}). "
        "Put them back to work?"
    )


def _classes(failed: list[TurnRecord]) -> Counter[str]:
    return Counter(turn.error_class or "unknown" for turn in failed)


def _ends(failed: list[TurnRecord]) -> list[datetime]:
    return [turn.finished_at or turn.created_at for turn in failed]


def _explain(result: RedriveResult) -> None:
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
    if malformed := result.letters["malformed"]:
        say(f"{malformed} malformed messages stay on the dead-letter queue: turnstile dlq list --messages")
    for queue, many in result.undeclared.items():
        say(f"{many} turns of queue {queue!r} were left alone: these settings do not declare it")
