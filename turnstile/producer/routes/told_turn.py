"""What a connection is told of one turn, in the wire that its client has chosen."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from turnstile.errors import ContentsUnreadableError, DatabaseUnavailableError
from turnstile.producer.backend import Backend
from turnstile.producer.routes.event_stream import ToldBytes
from turnstile.producer.routes.turn_responses import without_secrets
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.queries.session_messages import read_history_page
from turnstile.queries.turns import Standing, read_turn
from turnstile.sealing.contents import Unopened
from turnstile.streaming.event import EventId
from turnstile.streaming.wires.ag_ui import AgUiEncoder
from turnstile.streaming.wires.wire import Telling, Wire, encoder_of
from turnstile.turn.conversation import Message, join_inputs

CONVERSATION_MESSAGES = 200
CONVERSATION_BYTES = 1_000_000
"""How much of a conversation a snapshot has at most, its end."""

AGAIN_SECONDS = 1.0
"""Between two tries to read the conversation."""


async def tell_turn(
    backend: Backend, turn: Standing, wire: Wire, seen: EventId | None, *, joins: bool, prefix: str = ""
) -> ToldBytes:
    """Tells the turn to its end. Ends before it only if the server stops.

    `seen`: the last event that the client names. `joins`: whether the client may have something of the turn already. `prefix`
    comes before each id.
    """
    encoder = encoder_of(wire, joins=joins, seen=seen)
    telling = Telling(encoder, seen=seen, prefix=prefix)
    async with aclosing(backend.watch.follow(turn, seen if wire.resumes_in_the_middle else None)) as following:
        async for event in following:
            if event is None:
                yield None
                continue
            if isinstance(encoder, AgUiEncoder) and encoder.needs_conversation(event):
                while (messages := await _read_conversation(backend, turn)) is None:
                    if backend.watch.is_stopping:
                        return
                    yield None
                    await asyncio.sleep(AGAIN_SECONDS)
                encoder.learn_conversation(messages)
            yield telling.tell(event)


async def _read_conversation(backend: Backend, turn: Standing) -> Sequence[Message] | None:
    """The messages before the turn's reply, its input last. None if they can't be read now."""
    try:
        async with backend.reads.lend(turn.tenant_id) as reads:
            record = await read_turn(reads, turn.tenant_id, turn.id)
            if record is None:
                return []
            history: list[Message] = []
            if record.seq is not None:
                history, _ = await read_history_page(
                    reads,
                    turn.tenant_id,
                    turn.session_id,
                    limit=CONVERSATION_MESSAGES,
                    before=(record.seq, 0),
                    max_bytes=CONVERSATION_BYTES,
                )
    except (DatabaseUnavailableError, NoPlaceError):
        return None
    except ContentsUnreadableError:
        return []
    contents = [content for content in record.inputs or () if not isinstance(content, Unopened)]
    said = Message(
        turn_id=turn.id,
        seq=record.seq or 0,
        ordinal=0,
        role="user",
        content=join_inputs(contents),
        created_at=record.created_at,
    )
    return [replace(message, content=without_secrets(message.content, turn.session_id)) for message in (*history, said)]
