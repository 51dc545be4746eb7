"""`turnstile dlq`: the dead letters. The turns come from the table; the queue gives only the number of messages."""

from dataclasses import dataclass, replace
from typing import Annotated
from uuid import UUID

import typer

from turnstile.audit.event import AuditKind
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.ops.dead_letters.dlq_drop_command import drop
from turnstile.ops.dead_letters.dlq_export_command import export
from turnstile.ops.dead_letters.dlq_messages import DeadLetterPass, Letter, LetterKind, classify_letters
from turnstile.ops.dead_letters.failed_turns import FailedFilter, FailedGroup, group_failed, list_failed
from turnstile.ops.dead_letters.filter_options import count_left_out, say_halting, takes_filter
from turnstile.ops.sessions.redrive_refusals import why_left_alone
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, ShowText, TenantId, TurnId, make_typer
from turnstile.ops.terminal.output import (
    Columns,
    describe_counts,
    describe_error,
    print_json,
    print_table,
    print_text,
    say,
    shortened,
)
from turnstile.ops.turns.shown_turn import ShownTurn, print_shown, read_shown
from turnstile.ops.turns.turn_document import turn_document
from turnstile.telemetry.terminal_text import harmless
from turnstile.turn.turn_record import TurnRecord
from turnstile.turn.wire_format import DEAD_LETTER_REASON

BODY_CHARACTERS = 200

commands = make_typer(help="Turns that failed for good, and their dead-letter queues.", no_args_is_help=True)
commands.command()(export)
commands.command()(drop)


@dataclass(frozen=True, slots=True)
class QueuedLetter:
    """A message on a dead-letter queue, as shown to an operator."""

    queue: str
    message_id: str
    kind: str
    turn_id: UUID | None
    generation: int | None
    reason: str | None
    receive_count: int
    body: str | None


@commands.command("list")
@takes_filter("turn")
def list_dead(
    settings: Settings,
    wanted: FailedFilter,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="Those that an operator has given up (`dlq drop`).")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Count them by queue and error class, with the last turn of each.")
    ] = False,
    limit: Limit = 100,
    messages: Annotated[
        bool, typer.Option("--messages", help="Look at the queue's messages as well, and give them back.")
    ] = False,
    show_text: Annotated[bool, typer.Option("--show-text", help="Show the bodies of malformed messages.")] = False,
    as_json: AsJson = False,
) -> None:
    """List FAILED turns, oldest first, and how many messages wait on each dead-letter queue.

    --json: turns (as `turnstile list --json`), queues (queue, messages; null: SQS is away), and with --messages messages (queue,
    message_id, kind, turn_id, generation, reason, receive_count, body). With --groups only groups: queue, error_class, turns and
    tenants (how many), first_failed_at, last_failed_at, releases (of the handler: how many of the turns failed last under each),
    sample_turn_id (the turn that failed last) and sample_error.
    """
    names = settings.select_queues(wanted.queue)
    wanted = replace(wanted, dropped=dropped)
    if groups:
        found, halting = operate(settings, _group, wanted)
        _print_groups(found, as_json=as_json)
        say_halting(wanted, halting)
        return
    failed, halting, counts, letters = operate(
        settings, _look, wanted, names, limit, messages=messages, show_text=show_text
    )
    if as_json:
        shown = {"messages": letters} if messages else {}
        queues = [{"queue": name, "messages": count} for name, count in counts.items()]
        print_json({"turns": [turn_document(turn) for turn in failed], "queues": queues, **shown})
        say_halting(wanted, halting)
        return
    columns: Columns = {
        "turn": "id",
        "tenant": "tenant_id",
        "session": "session_id",
        "queue": "queue",
        "failed": "finished_at",
        "error": lambda turn: describe_error(turn.error_class, turn.error),
    }
    if dropped:
        columns = {**columns, "dropped": "dropped_at", "by": "dropped_by"}
    print_table(columns, failed)
    if len(failed) == limit:
        say(f"the oldest {limit}; there may be more (--limit)")
    say_halting(wanted, halting)
    for name, count in counts.items():
        say(
            f"messages on the dead-letter queue of {name}: {'unknown, SQS is away' if count is None else f'about {count}'}"
        )
    if messages:
        titles = ("queue", "message", "what it is", "turn", "generation", "reason", "received", "body")
        print_table(dict(zip(titles, QueuedLetter.__slots__, strict=True)), letters)


@commands.command()
def show(turn: TurnId, show_text: ShowText = False, tenant: TenantId = None, as_json: AsJson = False) -> None:
    """Show a turn, its attempts and its error, and how it can run again.

    --json: as `turnstile status --json`.
    """
    shown, left_alone = operate(load_settings(), _show, turn, tenant, show_text=show_text)
    print_shown(shown, as_json=as_json)
    say(f"run it again: turnstile redrive --turn {turn}" if left_alone is None else f"{turn} {left_alone}")


async def _look(
    operator: Operator, wanted: FailedFilter, names: list[str], limit: int, *, messages: bool, show_text: bool
) -> tuple[list[TurnRecord], int, dict[str, int | None], list[QueuedLetter]]:
    failed = await list_failed(operator.database, wanted, limit)
    halting = await count_left_out(operator, wanted)
    counts: dict[str, int | None] = dict.fromkeys(names)
    letters: list[QueuedLetter] = []
    for name in names:
        try:
            counts[name] = await operator.queues.count(name, dead=True)
            if messages:
                if show_text:
                    await operator.audit(AuditKind.TEXT_READ, f"malformed messages of queue {name}")
                async with DeadLetterPass(operator.queues, name) as dead:
                    async for batch in dead.batches(limit):
                        found = await classify_letters(operator.database, batch)
                        letters += [_as_queued(name, letter, show_text=show_text) for letter in found]
        except (QueueUnavailableError, UnknownQueueError) as error:
            # The list comes from the table and is complete without SQS.
            say(f"the messages of {name} are not shown: {error}")
    return failed, halting, counts, letters


def _as_queued(queue: str, letter: Letter, *, show_text: bool) -> QueuedLetter:
    message = letter.message
    return QueuedLetter(
        queue=queue,
        message_id=message.message_id,
        # The row may be FAILED, but SQS and no Turnstile process moved this message here.
        kind=LetterKind.MOVED_BY_SQS if message.moved_by_sqs and letter.wake_up else letter.kind,
        turn_id=letter.wake_up.turn_id if letter.wake_up else None,
        generation=message.dead_letter_generation,
        reason=message.attributes.get(DEAD_LETTER_REASON),
        receive_count=message.receive_count,
        body=harmless(message.body[:BODY_CHARACTERS]) if show_text and letter.kind is LetterKind.MALFORMED else None,
    )


async def _show(
    operator: Operator, turn_id: UUID, tenant: str | None, *, show_text: bool
) -> tuple[ShownTurn, str | None]:
    shown = await read_shown(operator, turn_id, tenant, with_text=show_text)
    return shown, await why_left_alone(operator.database, turn_id)


async def _group(operator: Operator, wanted: FailedFilter) -> tuple[list[FailedGroup], int]:
    return await group_failed(operator.database, wanted), await count_left_out(operator, wanted)


def _print_groups(groups: list[FailedGroup], *, as_json: bool) -> None:
    if as_json:
        print_json({"groups": groups})
        return
    columns: Columns = {
        "queue": "queue",
        "error": "error_class",
        "turns": "turns",
        "tenants": "tenants",
        "first": "first_failed_at",
        "last": "last_failed_at",
        "releases": lambda group: describe_counts(group.releases),
    }
    samples: Columns = {
        "queue": "queue",
        "error": "error_class",
        "the last turn": "sample_turn_id",
        "its message": lambda group: shortened(group.sample_error),
    }
    # Two tables: one is too wide for a terminal.
    print_table(columns, groups)
    if groups:
        print_text("\nThe last turn of each:")
        print_table(samples, groups)
