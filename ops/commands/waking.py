"""Sends a wake-up after a command has resumed a session. Imports no driver unless there is a wake-up to send."""

from typing import TYPE_CHECKING

from turnstile.ops.terminal.output import say

if TYPE_CHECKING:
    from turnstile.config.settings import Settings
    from turnstile.turn.envelope import OutgoingMessage


async def wake(settings: "Settings", woken: "tuple[str, OutgoingMessage] | None", *, whom: str) -> None:
    """Sends the wake-up, if there is one. If SQS is unreachable, prints that the relay wakes `whom`."""
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
