"""The sweep: deletes obsolete dead letters, whose row has changed since, and leaves all others on the queue.

It only reads rows and never changes a turn, so it may be killed, repeated, or run concurrently.
"""

from collections import Counter
from dataclasses import dataclass, field

from turnstile.backends.postgres.database import Database
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_pass import DeadLetterPass
from turnstile.ops.dead_letters.verdict import ReadLetter, Verdict, judge, read_letter
from turnstile.ops.terminal.output import Report
from turnstile.statements.redrive import read_generations
from turnstile.turn.envelope import ReceivedMessage


@dataclass(slots=True)
class SweepResult:
    """Messages on dead-letter queues by verdict, and how many of them were deleted."""

    found: Counter[Verdict] = field(default_factory=Counter)
    swept: int = 0

    @property
    def unswept(self) -> int:
        """How many obsolete messages SQS did not delete."""
        return sum(many for verdict, many in self.found.items() if verdict.is_litter) - self.swept

    @property
    def kept(self) -> int:
        """How many messages stay on the queue."""
        return self.found.total() - self.swept


async def judge_letters(database: Database, messages: list[ReceivedMessage]) -> list[tuple[ReadLetter, Verdict]]:
    """The verdict on each message, from the current rows."""
    letters = [read_letter(message) for message in messages]
    rows = await read_generations(database, [letter.wake_up.turn_id for letter in letters if letter.wake_up])
    return [(letter, judge(letter, rows)) for letter in letters]


async def sweep(
    database: Database, queues: MessageQueues, queue: str, *, report: Report = lambda done, total: None
) -> SweepResult:
    """Reads each message on the DLQ of `queue` once. Raises QueueUnavailableError or DatabaseUnavailableError."""
    result = SweepResult()
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            judged = await judge_letters(database, messages)
            gone = await dead.delete([letter.message for letter, verdict in judged if verdict.is_litter])
            result.swept += len(gone)
            result.found.update(verdict for _, verdict in judged)
            report(result.found.total(), max(dead.expected, result.found.total()))
    return result
