"""The sweep: deletes obsolete dead letters, whose row has changed since, and leaves all others on the queue.

It only reads rows and never changes a turn, so it may be killed, repeated, or run concurrently.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from turnstile.backends.postgres.database import Database
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_messages import DeadLetterPass, LetterKind, classify_letters
from turnstile.ops.terminal.output import Progress, plural


@dataclass(slots=True)
class SweepResult:
    """Messages on dead-letter queues by kind, and how many of them were deleted."""

    found: Counter[LetterKind] = field(default_factory=Counter)
    swept: int = 0

    @property
    def unswept(self) -> int:
        """How many obsolete messages SQS did not delete."""
        return sum(count for kind, count in self.found.items() if kind.is_obsolete) - self.swept


async def sweep(database: Database, queues: MessageQueues, queue: str) -> SweepResult:
    """Reads each message on the DLQ of `queue` once. Raises QueueUnavailableError or DatabaseUnavailableError."""
    result = SweepResult()
    progress = Progress()
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            letters = await classify_letters(database, messages)
            result.swept += len(await dead.delete([one.message for one in letters if one.kind.is_obsolete]))
            result.found.update(one.kind for one in letters)
            progress.say(
                f"the sweep of {queue} has read {result.found.total()} of about {plural(dead.expected, 'message')}"
            )
    return result


async def sweep_queues(
    database: Database, queues: MessageQueues, names: Iterable[str]
) -> dict[str, SweepResult | None]:
    """Sweeps one DLQ after the other. None: SQS is away, or has no such queue. Raises DatabaseUnavailableError."""
    swept: dict[str, SweepResult | None] = {}
    for name in names:
        try:
            swept[name] = await sweep(database, queues, name)
        except (QueueUnavailableError, UnknownQueueError):
            swept[name] = None
    return swept
