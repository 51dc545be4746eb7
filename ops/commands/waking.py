"""The wake-up that a command sends for a session that it lets go on. Imports no driver before there is something to send."""

from typing import TYPE_CHECKING

from turnstile.ops.terminal.output import say

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.turn.envelope import OutgoingMessage


async def wake(settings: "Settings", woken: "tuple[str, OutgoingMessage] | None", *, whom: str) -> None:
    """Sends it, if there is one. Where SQS is away the relay does, and the person is told so: it wakes `whom`."""
    if woken is None:
        return
    from turnstile.errors import QueueUnavailableError, UnknownQueueError
    from turnstile.message_queue import MessageQueues

    queue, message = woken
    queues = MessageQueues(settings)
    try:
        await queues.send(queue, [message])
    except (QueueUnavailableError, UnknownQueueError):
        say(f"the queue is away; the relay wakes {whom}")
    finally:
        await queues.close()
