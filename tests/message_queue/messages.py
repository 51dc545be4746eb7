"""Messages to send, and receives that wait for as many as were sent."""

from uuid import UUID, uuid4

from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import WakeUp

TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"


def wake_up(session: str = "s", turn_id: UUID | None = None) -> OutgoingMessage:
    return OutgoingMessage(WakeUp("t", session, turn_id or uuid4()), TRACEPARENT)


def dead_letter(message: OutgoingMessage, error_class: str = "Boom") -> DeadLetter:
    return DeadLetter(message, error_class, attempts=3, fence=42, generation=2)


async def receive(
    queues: MessageQueues, queue: QueueSettings, many: int = 1, *, dead: bool = False
) -> list[ReceivedMessage]:
    """Receives exactly `many` messages, in as many polls as necessary."""
    found: list[ReceivedMessage] = []

    async def enough() -> bool:
        found.extend(await queues.receive(queue.name, 10, dead=dead))
        return len(found) >= many

    await until(enough)
    assert len(found) == many
    return found


async def is_empty(queues: MessageQueues, queue: QueueSettings, *, dead: bool = False) -> bool:
    """Whether no message is visible or in flight."""
    return await queues.count(queue.name, dead=dead) == 0
