"""`turnstile dlq drop`: gives FAILED turns up, or deletes messages that no row explains. Asks for confirmation."""

from dataclasses import asdict
from typing import Annotated

import typer

from turnstile.audit.event import AuditKind
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.ops.dead_letters.drop_failed import DropResult, drop_turns
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.filter_options import MostTurns, describe_failed, find_failed, takes_filter
from turnstile.ops.dead_letters.rowless import Pick, delete_rowless, pick_malformed, picking_unknown, read_rowless
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import Operator, operate
from turnstile.ops.terminal.options import AsJson, DryRun, Malformed, Yes, confirm
from turnstile.ops.terminal.output import plural, print_json, print_text, say
from turnstile.turn.turn_record import TurnRecord

MessageIds = dict[str, list[str]]
"""The ids of messages by queue."""


@takes_filter()
def drop(
    settings: Settings,
    wanted: FailedFilter,
    malformed: Malformed = False,
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown", help="The messages of turns that do not exist, in place of turns; with --queue only."
        ),
    ] = False,
    limit: MostTurns = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give up FAILED turns: they stay FAILED and keep their data, but alarms and lists leave them out.

    Their dead letters are deleted. `dlq list --dropped` shows them, with who did it and when; `redrive --turn` still puts one
    back to work. With --malformed: deletes the messages that can't be read; only `dlq export --malformed` makes a copy. With
    --unknown: deletes the messages of turns that are not in the database, after a restore or from another environment.

    --json: dry_run, matched, dropped, moved_on (no longer FAILED), swept (deleted messages of the DLQs), unswept_queues (their
    dead letters are not all deleted), turn_ids. With --malformed or --unknown: dry_run, matched, deleted.
    """
    names = settings.select_queues(wanted.queue)
    if malformed or unknown:
        option = "--unknown" if unknown else "--malformed"
        if wanted != FailedFilter(queue=wanted.queue) or limit is not None or (malformed and unknown):
            raise typer.BadParameter(f"{option} goes with --queue only: such a message has no turn")
        _drop_rowless(settings, names, unknown, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    failed = operate(settings, find_failed, wanted, limit)
    if failed and not dry_run:
        confirm(f"{describe_failed(failed, wanted, limit)}. Give them up?", yes=yes)
    result = DropResult() if dry_run or not failed else operate(settings, _drop, wanted, failed)
    if as_json:
        ids = [turn.id for turn in failed] if dry_run else result.dropped
        counts = {**asdict(result), "dropped": len(result.dropped)}
        print_json({"dry_run": dry_run, "matched": len(failed), **counts, "turn_ids": ids})
    elif failed:
        print_text(f"would give up {describe_failed(failed, wanted, limit)}" if dry_run else _sentence(failed, result))
    if result.unswept_queues:
        unswept = ", ".join(result.unswept_queues)
        say(
            f"the dead letters of {unswept} are not all deleted: `turnstile doctor --fix`, or the next redrive, does it"
        )


def _sentence(failed: list[TurnRecord], result: DropResult) -> str:
    moved_on = f", {result.moved_on} no longer FAILED or given up before" if result.moved_on else ""
    swept = f"; {plural(result.swept, 'dead letter')} deleted" if result.swept else ""
    return f"{len(result.dropped)} of {plural(len(failed), 'turn')} given up{moved_on}{swept}"


def _drop_rowless(
    settings: Settings, names: list[str], unknown: bool, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    found = operate(settings, _find_rowless, names, unknown)
    matched = sum(map(len, found.values()))
    messages = f"{plural(matched, 'message')} of unknown turns" if unknown else plural(matched, "malformed message")
    counts = ", ".join(f"{name} {len(ids)}" for name, ids in found.items())
    if found and not dry_run:
        warning = (
            "Their turns are not in this database: see that DATABASE_URL names the right one"
            if unknown
            else "No other copy exists: `turnstile dlq export --malformed --show-text FILE` makes one"
        )
        confirm(f"{messages} ({counts}). {warning}. Delete?", yes=yes)
    deleted = 0 if dry_run or not found else operate(settings, _delete_rowless, found, unknown)
    if as_json:
        print_json({"dry_run": dry_run, "matched": matched, "deleted": deleted})
    elif not found:
        say(f"no {'message of an unknown turn' if unknown else 'malformed message'} is on the dead-letter queues")
    else:
        print_text(f"would delete {messages} ({counts})" if dry_run else f"{deleted} of {messages} deleted")
    if not dry_run and deleted < matched:
        say(f"SQS did not delete {matched - deleted} of them; run it again")
        raise typer.Exit(ExitCode.FAILED)


async def _drop(operator: Operator, wanted: FailedFilter, failed: list[TurnRecord]) -> DropResult:
    return await drop_turns(operator.database, operator.queues, wanted, failed, requested_by=operator.name)


def _pick(operator: Operator, unknown: bool) -> Pick:
    return picking_unknown(operator.database) if unknown else pick_malformed


async def _find_rowless(operator: Operator, names: list[str], unknown: bool) -> MessageIds:
    pick = _pick(operator, unknown)
    found = {name: [one.message_id async for one in read_rowless(operator.queues, name, pick)] for name in names}
    return {name: ids for name, ids in found.items() if ids}


async def _delete_rowless(operator: Operator, found: MessageIds, unknown: bool) -> int:
    deleted = 0
    for name, ids in found.items():
        what = "messages of unknown turns" if unknown else "malformed messages"
        await operator.audit(AuditKind.MESSAGES_DELETED, f"{what} of queue {name}", counts={"messages": len(ids)})
        try:
            deleted += await delete_rowless(operator.queues, name, frozenset(ids), _pick(operator, unknown))
        except (QueueUnavailableError, UnknownQueueError) as error:
            say(f"{name}: {error}")
    return deleted
