"""Export: FAILED turns and malformed messages as JSON lines, to keep or to look through elsewhere.

A line of a turn has `kind` "turn", the row, and its attempts with their errors and tracebacks. A line of a message has `kind`
"malformed". What users said, and the bodies of messages, are in it only on request.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from turnstile.backends.postgres.database import Database
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.rowless import pick_malformed, read_rowless
from turnstile.ops.turns.attempts import read_attempts
from turnstile.ops.turns.operator_turns import read_messages
from turnstile.ops.turns.turn_document import attempt_document, turn_document
from turnstile.queries.turns import TurnRecord
from turnstile.turn.wire_format import DEAD_LETTER_REASON

Line = dict[str, Any]


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
