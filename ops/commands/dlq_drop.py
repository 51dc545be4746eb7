"""`turnstile dlq drop`: gives FAILED turns up, or deletes malformed messages. Asks for confirmation."""

from dataclasses import asdict
from typing import Annotated

import typer

from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.ops.commands.failed_turns import describe_failed, find_failed, read_turn_ids
from turnstile.ops.dead_letters.drop import DropResult, drop_turns
from turnstile.ops.dead_letters.malformed import delete_malformed, read_malformed
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import (
    AsJson,
    DryRun,
    ErrorClass,
    FailedBefore,
    FailedSince,
    Malformed,
    QueueName,
    SessionId,
    TenantId,
    TraceId,
    TurnIds,
    Yes,
    confirm,
)
from turnstile.ops.terminal.output import many, print_json, print_text, say
from turnstile.queries.failed_turns import FailedFilter
from turnstile.queries.turns import TurnRecord

MalformedIds = dict[str, list[str]]
"""The ids of malformed messages by queue."""


def drop(
    queue: QueueName = None,
    turn: TurnIds = None,
    error: ErrorClass = None,
    tenant: TenantId = None,
    session: SessionId = None,
    older_than: FailedBefore = None,
    younger_than: FailedSince = None,
    trace: TraceId = None,
    malformed: Malformed = False,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, help="At most this many, oldest first.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give FAILED turns up: they stay FAILED with all that is known of them, but no alarm and no list asks for them any more.

    Their dead letters are deleted. `dlq list --dropped` shows them, with who did it and when; `redrive --turn` still puts one
    back to work. With --malformed: deletes the messages that can't be read, which are nowhere else (`dlq export --malformed`).

    --json: dry_run, matched, dropped, moved_on (no longer FAILED), swept (deleted messages of the DLQs), unswept_queues (their
    dead letters are not all deleted), turn_ids. With --malformed: dry_run, matched, deleted.
    """
    settings = load_settings()
    names = settings.select_queues(queue)
    wanted = FailedFilter(
        queue=queue,
        turn_ids=read_turn_ids(turn or ()),
        error_class=error,
        tenant_id=tenant,
        session_id=session,
        older_than_seconds=older_than,
        younger_than_seconds=younger_than,
        trace_id=trace,
    )
    if malformed:
        if wanted != FailedFilter(queue=queue) or limit is not None:
            raise typer.BadParameter("--malformed goes with --queue only: a message that can't be read has no turn")
        _drop_malformed(settings, names, dry_run=dry_run, yes=yes, as_json=as_json)
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
    swept = f"; {many(result.swept, 'dead letter')} deleted" if result.swept else ""
    return f"{len(result.dropped)} of {many(len(failed), 'turn')} given up{moved_on}{swept}"


def _drop_malformed(settings: Settings, names: list[str], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    found = operate(settings, _find_malformed, names)
    matched = sum(map(len, found.values()))
    messages = many(matched, "malformed message")
    counts = ", ".join(f"{name} {len(ids)}" for name, ids in found.items())
    if found and not dry_run:
        copy = "`turnstile dlq export --malformed --show-text FILE` makes one"
        confirm(f"{messages} ({counts}). No other copy exists: {copy}. Delete?", yes=yes)
    deleted = 0 if dry_run or not found else operate(settings, _delete_malformed, found)
    if as_json:
        print_json({"dry_run": dry_run, "matched": matched, "deleted": deleted})
    elif not found:
        say("no malformed message is on the dead-letter queues")
    else:
        print_text(f"would delete {messages} ({counts})" if dry_run else f"{deleted} of {messages} deleted")
    if not dry_run and deleted < matched:
        say(f"SQS did not delete {matched - deleted} of them; run it again")
        raise typer.Exit(ExitCode.FAILED)


async def _drop(operator: Operator, wanted: FailedFilter, failed: list[TurnRecord]) -> DropResult:
    return await drop_turns(operator.database, operator.queues, wanted, failed)


async def _find_malformed(operator: Operator, names: list[str]) -> MalformedIds:
    found = {name: [message.message_id async for message in read_malformed(operator.queues, name)] for name in names}
    return {name: ids for name, ids in found.items() if ids}


async def _delete_malformed(operator: Operator, found: MalformedIds) -> int:
    deleted = 0
    for name, ids in found.items():
        try:
            deleted += await delete_malformed(operator.queues, name, frozenset(ids))
        except (QueueUnavailableError, UnknownQueueError) as error:
            say(f"{name}: {error}")
    return deleted
