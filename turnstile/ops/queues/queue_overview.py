"""The declared queues at one moment: what SQS counts, what the table counts, who works on them, and who has paused them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.terminal.output import Column, Columns, short_duration, short_time, value_getter
from turnstile.ops.workers.worker_overview import read_worker_overview
from turnstile.queries.attention import read_attention
from turnstile.queries.backlog import Backlog, TenantBacklog, read_backlog, read_backlog_by_tenant
from turnstile.queries.workers import WorkerState
from turnstile.statements.paused_queues import PausedQueue, read_paused_queues
from turnstile.turn.envelope import QueueDepth

if TYPE_CHECKING:
    from turnstile.message_queue import MessageQueues


@dataclass(frozen=True, slots=True)
class SqsCounts:
    """What SQS says of a queue and its DLQ; or why it says nothing, in `error`."""

    depth: QueueDepth | None
    dead_letters: int | None
    """Messages on the DLQ."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TopTenant:
    """The tenant that has the most due turns of a queue."""

    tenant_id: str
    due: int
    percent: int
    """Its percentage of the turns that `Backlog.due` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOverview:
    """One declared queue."""

    queue: str
    purpose: str | None
    owner: str | None
    sqs: SqsCounts
    backlog: Backlog
    top_tenant: TopTenant | None
    """None: nothing is due."""
    halted_sessions: int
    workers: dict[WorkerState, int]
    """How many of its workers are in each state; a state without a worker is left out."""
    paused: PausedQueue | None
    """None: the queue is not paused."""


BACKLOG: Columns = {
    "due": lambda one: f"{one.due}{'+' if one.truncated else ''}",
    "ready": "ready",
    "running": "running",
    "oldest": lambda one: short_duration(one.oldest_seconds) if one.ready else "",
}


def _of_backlog(column: Column) -> Column:
    read = value_getter(column)
    return lambda one: read(one.backlog)


QUEUES: Columns = {
    "queue": "queue",
    "messages": lambda one: _messages(one.sqs.depth),
    **{title: _of_backlog(column) for title, column in BACKLOG.items()},
    "top tenant": lambda one: f"{one.top_tenant.tenant_id} {one.top_tenant.percent}%" if one.top_tenant else "",
    "DLQ": lambda one: "?" if one.sqs.error is not None else one.sqs.dead_letters,
    "halted": "halted_sessions",
    "workers": lambda one: _workers(one.workers),
    "paused": lambda one: _paused(one.paused),
    "owner": "owner",
    "purpose": "purpose",
}


def _messages(depth: QueueDepth | None) -> str:
    return "SQS is away" if depth is None else f"{depth.visible}/{depth.in_flight}/{depth.delayed}"


def _workers(workers: Mapping[WorkerState, int]) -> str:
    # A worker of a paused queue works as it should.
    return f"{workers.get(WorkerState.WELL, 0) + workers.get(WorkerState.PAUSED, 0)}/{sum(workers.values())}"


def _paused(paused: PausedQueue | None) -> str:
    if paused is None:
        return ""
    reason = f": {paused.reason}" if paused.reason else ""
    return f"by {paused.paused_by} since {short_time(paused.paused_at)}{reason}"


async def read_overview(operator: Operator) -> list[QueueOverview]:
    """The declared queues, in the order of their declarations. If SQS is away, the rows say so.

    Raises DatabaseUnavailableError, RegionMissingError.
    """
    settings, database = operator.settings, operator.database
    names = list(settings.queues_by_name)
    counts = dict(zip(names, await count_messages(operator.queues, names), strict=True))
    backlogs = {one.queue: one for one in await read_backlog(database, names)}
    tenants = await read_backlog_by_tenant(database, names)
    halted = {one.queue: one.halted for one in await read_attention(database, names, lately_seconds=0)}
    paused = await read_paused_queues(database)
    workers = Counter((one.queue, one.state) for one in await read_worker_overview(operator))
    return [
        QueueOverview(
            queue=queue.name,
            purpose=queue.purpose,
            owner=queue.owner,
            sqs=counts[queue.name],
            backlog=backlogs[queue.name],
            top_tenant=find_top_tenant([one for one in tenants if one.queue == queue.name]),
            halted_sessions=halted[queue.name],
            workers={state: workers[queue.name, state] for state in WorkerState if workers[queue.name, state]},
            paused=paused.get(queue.name),
        )
        for queue in settings.queues
    ]


def find_top_tenant(tenants: Sequence[TenantBacklog]) -> TopTenant | None:
    """The first of one queue's tenants, which are ordered by their due turns; None if none of them has any."""
    due = sum(one.due for one in tenants)
    return TopTenant(tenants[0].tenant_id, tenants[0].due, round(100 * tenants[0].due / due)) if due else None


async def count_messages(queues: "MessageQueues", names: Sequence[str]) -> list[SqsCounts]:
    """The counts of these queues, all asked for at once: an SQS that is away costs its time-out once."""
    return await asyncio.gather(*(_count(queues, name) for name in names))


async def _count(queues: "MessageQueues", name: str) -> SqsCounts:
    try:
        return SqsCounts(await queues.measure(name), await queues.count(name, dead=True))
    except (QueueUnavailableError, UnknownQueueError) as error:
        return SqsCounts(None, None, str(error))
