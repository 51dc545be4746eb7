"""`turnstile dlq export`: FAILED turns and malformed messages as JSON lines, to keep or to search elsewhere."""

import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from turnstile.audit.event import AuditKind
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.filter_options import find_failed, takes_filter
from turnstile.ops.dead_letters.rowless import pick_malformed, read_rowless
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, operate
from turnstile.ops.terminal.options import Malformed, ShowText
from turnstile.ops.terminal.output import Progress, as_json_line, plural, say
from turnstile.ops.turns.attempts import read_attempts
from turnstile.ops.turns.operator_turns import read_messages
from turnstile.ops.turns.turn_document import attempt_document, turn_document
from turnstile.turn.turn_record import TurnRecord
from turnstile.turn.wire_format import DEAD_LETTER_REASON

Line = dict[str, Any]

READABLE_BY_ITS_OWNER = 0o600
"""The file may have what users said."""


@takes_filter()
def export(
    settings: Settings,
    wanted: FailedFilter,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file; - is standard output.")],
    malformed: Malformed = False,
    show_text: ShowText = False,
) -> None:
    """Write FAILED turns as JSON lines, and the malformed messages of the dead-letter queues.

    A line has `kind` "turn" (turn, attempts with errors and tracebacks) or "malformed" (queue, message_id, reason). What users
    said and the bodies of messages are in it only with --show-text. Messages have no turn: with a filter on turns, they are left
    out. Changes nothing; a file that was not finished is removed.
    """
    names = settings.select_queues(wanted.queue)
    about_turns = wanted != FailedFilter(queue=wanted.queue)
    if malformed and about_turns:
        raise typer.BadParameter("--malformed goes with --queue only: a message that can't be read has no turn")
    with _opened(file) as out:
        turns, messages = operate(
            settings, _export, out, None if malformed else wanted, [] if about_turns else names, show_text=show_text
        )
    say(f"{plural(turns, 'turn')} and {plural(messages, 'malformed message')} written")


@contextmanager
def _opened(file: str) -> Iterator[IO[str]]:
    if file == "-":
        yield sys.stdout
        return
    path = Path(file)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE_BY_ITS_OWNER)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}; nothing was written", ExitCode.USAGE) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            yield out
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _export(
    operator: Operator, out: IO[str], wanted: FailedFilter | None, names: list[str], *, show_text: bool
) -> tuple[int, int]:
    turns, messages = 0, 0
    progress = Progress()
    if wanted is not None:
        failed = await find_failed(operator, wanted, None)
        if show_text:
            await _audit_tenants(operator, failed)
        async for line in export_turns(operator.database, failed, show_text=show_text):
            _write(out, line)
            turns += 1
            progress.say(f"{turns} of {plural(len(failed), 'turn')} written")
    for name in names:
        if show_text:
            await operator.audit(AuditKind.TEXT_READ, f"export of malformed messages of queue {name}")
        async with aclosing(export_malformed(operator.queues, name, show_text=show_text)) as lines:
            async for line in lines:
                _write(out, line)
                messages += 1
    return turns, messages


async def _audit_tenants(operator: Operator, failed: Sequence[TurnRecord]) -> None:
    # An event for each tenant: it must be found by any of them.
    for tenant_id, turns in Counter(turn.tenant_id for turn in failed).items():
        await operator.audit(
            AuditKind.TEXT_READ, "export of FAILED turns", tenant_id=tenant_id, counts={"turns": turns}
        )


def _write(out: IO[str], line: Line) -> None:
    out.write(as_json_line(line) + "\n")


async def export_turns(
    database: Database, failed: Sequence[TurnRecord], *, show_text: bool
) -> AsyncGenerator[Line, None]:
    """A line for each turn. Raises DatabaseUnavailableError."""
    for turn in failed:
        attempts = [attempt_document(one) for one in await read_attempts(database, turn.tenant_id, turn.id)]
        said = {"messages": await read_messages(database, turn.tenant_id, turn.id)} if show_text else {}
        yield {"kind": "turn", "turn": turn_document(turn), "attempts": attempts, **said}


async def export_malformed(queues: MessageQueues, queue: str, *, show_text: bool) -> AsyncGenerator[Line, None]:
    """A line for each malformed message on the DLQ of a queue. Raises QueueUnavailableError or UnknownQueueError."""
    async with aclosing(read_rowless(queues, queue, pick_malformed)) as messages:
        async for message in messages:
            # Attributes of strangers may quote what the body says.
            text = {"body": message.body, "attributes": message.attributes} if show_text else {}
            yield {
                "kind": "malformed",
                "queue": queue,
                "message_id": message.message_id,
                "reason": message.attributes.get(DEAD_LETTER_REASON),
                "receive_count": message.receive_count,
                **text,
            }
