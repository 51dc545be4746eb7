"""What the screen shows, read at one time. The same queries as those of `stats`, `queues list` and `workers`."""

from dataclasses import dataclass

from turnstile.ops.dead_letters.failed_turns import FailedGroup, group_failures
from turnstile.ops.queues.queue_overview import QueueOverview, read_overview
from turnstile.ops.stats.read_stats import Stats, read_stats
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.workers.worker_overview import WorkerOverview, read_worker_overview
from turnstile.queries.workers import RunningTurn, read_running

MOST_ROWS = 200
"""The most running turns that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    stats: Stats
    queues: list[QueueOverview]
    workers: list[WorkerOverview]
    running: list[RunningTurn]
    """Those that run longest first."""
    failed: list[FailedGroup]
    """The largest group first; without the turns that operators have given up."""


async def take_snapshot(operator: Operator, since_seconds: float) -> Snapshot:
    """The figures are those of the turns that ended within `since_seconds`. Raises DatabaseUnavailableError."""
    database = operator.database
    return Snapshot(
        stats=await read_stats(database, since_seconds=since_seconds),
        queues=await read_overview(operator),
        workers=await read_worker_overview(operator),
        running=await read_running(database, None, MOST_ROWS),
        failed=await group_failures(database),
    )
