"""The declared queues at one moment: what SQS counts, what the table counts, who works on them, and who has paused them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.ops.terminal.operator_access import Operator
from turnstile.queries.attention import read_attention
from turnstile.queries.backlog import Backlog, read_backlog
from turnstile.queries.workers import WorkerState, judge_worker, read_workers
from turnstile.statements.paused_queues import PausedQueue, read_paused_queues
from turnstile.turn.envelope import QueueDepth


@dataclass(frozen=True, slots=True)
class SqsCounts:
    """What SQS says of a queue and its DLQ; or why it says nothing, in `error`."""

    depth: QueueDepth | None
    dead_letters: int | None
    """Messages on the DLQ."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOverview:
    """One declared queue."""

    queue: str
    purpose: str | None
    owner: str | None
    sqs: SqsCounts
    backlog: Backlog
    halted_sessions: int
    workers: dict[WorkerState, int]
    """How many of its workers are in each state; a state without a worker is left out."""
    paused: PausedQueue | None
    """None: the queue is not paused."""

    @property
    def all_workers(self) -> int:
        return sum(self.workers.values())


async def read_overview(operator: Operator) -> list[QueueOverview]:
    """The declared queues, in the order of their declarations. If SQS is away, the rows say so.

    Raises DatabaseUnavailableError, RegionMissingError.
    """
    settings, database = operator.settings, operator.database
    names = list(settings.queues_by_name)
    counts = dict(zip(names, await count_messages(operator.queues, names), strict=True))
    backlogs = {one.queue: one for one in await read_backlog(database, names)}
    halted = {one.queue: one.halted for one in await read_attention(database, names, lately_seconds=0)}
    paused = await read_paused_queues(database)
    workers = Counter((one.queue, judge_worker(one, one.read_at, settings)) for one in await read_workers(database))
    return [
        QueueOverview(
            queue=queue.name,
            purpose=queue.purpose,
            owner=queue.owner,
            sqs=counts[queue.name],
            backlog=backlogs[queue.name],
            halted_sessions=halted[queue.name],
            workers={state: workers[queue.name, state] for state in WorkerState if workers[queue.name, state]},
            paused=paused.get(queue.name),
        )
        for queue in settings.queues
    ]


async def count_messages(queues: MessageQueues, names: Sequence[str]) -> list[SqsCounts]:
    """The counts of these queues, all asked for at once: an SQS that is away costs its time-out once."""
    return await asyncio.gather(*(_count(queues, name) for name in names))


async def _count(queues: MessageQueues, name: str) -> SqsCounts:
    try:
        return SqsCounts(await queues.measure(name), await queues.count(name, dead=True))
    except (QueueUnavailableError, UnknownQueueError) as error:
        return SqsCounts(None, None, str(error))
