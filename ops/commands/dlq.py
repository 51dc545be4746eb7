"""`turnstile dlq`: the dead letters. The turns come from the table; the queue gives only the number of messages."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.output import AsJson, harmless, print_fields, print_json, print_table, say, shortened

if TYPE_CHECKING:
    from turnstile.backends.postgres.database import Database
    from turnstile.config.settings import Settings
    from turnstile.queries.attempts import EndedAttempt
    from turnstile.queries.failed_turns import FailedFilter
    from turnstile.queries.operator_turns import TurnMessage
    from turnstile.queries.turns import TurnRecord

BODY_CHARACTERS = 200

commands = typer.Typer(help="Turns that failed for good, and their dead-letter queues.", no_args_is_help=True)

ShowText = Annotated[bool, typer.Option("--show-text", help="Show what was said, too.")]


@commands.command("list")
def list_dead(
    queue: Annotated[str | None, typer.Option()] = None,
    error: Annotated[str | None, typer.Option(help="The error's class, as the list shows it.")] = None,
    tenant: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1)] = 100,
    messages: Annotated[
        bool, typer.Option("--messages", help="Look at the queue's messages as well, and give them back.")
    ] = False,
    show_text: Annotated[bool, typer.Option("--show-text", help="Show the bodies of malformed messages.")] = False,
    as_json: AsJson = False,
) -> None:
    """List FAILED turns, oldest first, and how many messages wait on each dead-letter queue."""
    from turnstile.ops.commands.turns import as_document
    from turnstile.ops.terminal.operator_access import load_settings, run
    from turnstile.queries.failed_turns import FailedFilter

    settings = load_settings()
    names = [settings.find_queue(queue).name] if queue is not None else list(settings.queues_by_name)
    wanted = FailedFilter(queue=queue, error_class=error, tenant_id=tenant)
    failed, counts, letters = run(_look(settings, wanted, names, limit, peek=messages, show_text=show_text))
    if as_json:
        shown = {"messages": letters} if messages else {}
        queues = [{"queue": name, "messages": counts[name]} for name in names]
        print_json({"turns": [as_document(turn) for turn in failed], "queues": queues, **shown})
        return
    _print_failed(failed)
    if len(failed) == limit:
        say(f"the oldest {limit}; there may be more (--limit)")
    for name in names:
        say(f"on the dead-letter queue of {name}: {count_in_words(counts[name])}")
    if messages:
        columns = ("queue", "message", "what it is", "turn", "generation", "reason", "received", "body")
        print_table(columns, [tuple(letter.values()) for letter in letters])


@commands.command()
def show(
    turn: Annotated[UUID, typer.Argument(metavar="TURN")], show_text: ShowText = False, as_json: AsJson = False
) -> None:
    """Show a FAILED turn, its attempts and its error."""
    from turnstile.ops.commands.turns import as_document, print_attempts, print_said
    from turnstile.ops.terminal.operator_access import load_settings, run

    failed, attempts, said = run(_show(load_settings(), turn))
    if as_json:
        shown = {"messages": [asdict(message) for message in said]} if show_text else {}
        print_json({"turn": as_document(failed), "attempts": [asdict(attempt) for attempt in attempts], **shown})
        return
    print_fields(as_document(failed))
    print_attempts(attempts)
    if show_text:
        print_said(said)
    say(f"run it again: turnstile redrive --turn {turn}")


async def _look(
    settings: "Settings", wanted: "FailedFilter", names: Sequence[str], limit: int, *, peek: bool, show_text: bool
) -> tuple[list["TurnRecord"], dict[str, int | None], list[dict[str, Any]]]:
    from turnstile.errors import QueueUnavailableError, UnknownQueueError
    from turnstile.message_queue import MessageQueues
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.queries.failed_turns import list_failed

    counts: dict[str, int | None] = {}
    letters: list[dict[str, Any]] = []
    queues = MessageQueues(settings)
    try:
        async with operator_database(settings) as database:
            failed = [turn async for turn in list_failed(database, wanted, limit)]
            for name in names:
                try:
                    counts[name] = await queues.count(name, dead=True)
                    if peek:
                        letters += await _peek(database, queues, name, limit, show_text=show_text)
                except (QueueUnavailableError, UnknownQueueError) as error:
                    # The list comes from the table and is complete without SQS.
                    counts.setdefault(name, None)
                    say(f"the messages of {name} are not shown: {error}")
    finally:
        await queues.close()
    return failed, counts, letters


async def _peek(database: "Database", queues: Any, queue: str, limit: int, *, show_text: bool) -> list[dict[str, Any]]:
    from turnstile.ops.dead_letters.dlq_pass import DeadLetterPass
    from turnstile.ops.dead_letters.sweep import judge_letters
    from turnstile.ops.dead_letters.verdict import Verdict
    from turnstile.turn.message import DEAD_LETTER_REASON

    seen: list[dict[str, Any]] = []
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches(limit):
            for letter, verdict in await judge_letters(database, messages):
                message = letter.message
                seen.append(
                    {
                        "queue": queue,
                        "message_id": message.message_id,
                        # The row may be FAILED, but SQS and no Turnstile process moved this message here.
                        "kind": "moved_by_sqs" if message.moved_by_sqs and letter.wake_up else verdict.value,
                        "turn_id": letter.wake_up.turn_id if letter.wake_up else None,
                        "generation": message.dead_letter_generation,
                        "reason": message.attributes.get(DEAD_LETTER_REASON),
                        "receive_count": message.receive_count,
                        "body": harmless(message.body[:BODY_CHARACTERS])
                        if show_text and verdict is Verdict.MALFORMED
                        else None,
                    }
                )
    return seen


async def _show(settings: "Settings", turn_id: UUID) -> "tuple[TurnRecord, list[EndedAttempt], list[TurnMessage]]":
    from turnstile.ops.terminal.operator_access import operator_database
    from turnstile.queries.attempts import read_attempts
    from turnstile.queries.failed_turns import FailedFilter, list_failed
    from turnstile.queries.operator_turns import read_messages

    async with operator_database(settings) as database:
        failed = [turn async for turn in list_failed(database, FailedFilter(turn_ids=(turn_id,)))]
        if not failed:
            raise CommandError(await _why_not(database, turn_id), ExitCode.NOT_FOUND)
        whose = failed[0].tenant_id
        return failed[0], await read_attempts(database, whose, turn_id), await read_messages(database, whose, turn_id)


async def _why_not(database: "Database", turn_id: UUID) -> str:
    from turnstile.ops.commands.halted_session import find_archived, why_not_again
    from turnstile.queries.operator_turns import read_turn_of_any
    from turnstile.statements.halt import read_halt
    from turnstile.turn.status import TurnStatus

    turn = await read_turn_of_any(database, turn_id)
    if turn is None:
        return f"there is no turn {turn_id}"
    if turn.status is not TurnStatus.FAILED:
        return f"{turn_id} is {turn.status}, not FAILED"
    if turn.halted_by == turn_id:
        return (
            f"{turn_id} is FAILED and halts its session: it is not given up yet; "
            f"turnstile retry {turn_id} or turnstile skip {turn_id}"
        )
    halt = await read_halt(database, turn_id)
    if halt is None:
        return await find_archived(database, turn_id) or f"there is no turn {turn_id}"
    if reason := why_not_again(halt):
        return f"{turn_id} {reason}"
    return f"{turn_id} has failed just now: ask again"


def _print_failed(failed: "Sequence[TurnRecord]") -> None:
    columns = ("turn", "tenant", "session", "queue", "attempts", "crashes", "failed", "dead letter", "error")
    print_table(
        columns,
        [
            (
                turn.id,
                turn.tenant_id,
                turn.session_id,
                turn.queue,
                turn.attempt,
                turn.crashes,
                turn.finished_at,
                "sent" if turn.dead_lettered_at else "",
                ": ".join(filter(None, (turn.error_class, shortened(turn.error)))),
            )
            for turn in failed
        ],
    )


def count_in_words(count: int | None) -> str:
    """The number of messages as text; `count` is None if SQS is unreachable."""
    return "unknown, SQS is away" if count is None else f"about {count} message{'' if count == 1 else 's'}"
