"""The workers and the turns that they run, as `turnstile workers` and `turnstile top` show them."""

from dataclasses import asdict, dataclass

from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.terminal.output import Columns, short_duration
from turnstile.queries.workers import RegisteredWorker, WorkerState, judge_worker, read_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOverview(RegisteredWorker):
    """A worker as its last heartbeat described it, and what it can be expected to do."""

    state: WorkerState
    seconds_since_heartbeat: float


def _describe_state(worker: WorkerOverview) -> str:
    """The worker's state; for a blocked worker with the length of the block at its last heartbeat, for one with a broken
    handler with the class of its error."""
    match worker.state:
        case WorkerState.BLOCKED:
            return f"{worker.state} {short_duration(worker.blocked_for_seconds)}"
        case WorkerState.BROKEN:
            return f"{worker.state} {worker.broken_by}"
        case state:
            return state


WORKERS: Columns = {
    "worker": "worker_id",
    "queue": "queue",
    "state": _describe_state,
    "heartbeat": lambda worker: f"{short_duration(worker.seconds_since_heartbeat)} ago",
    "busy at heartbeat": lambda worker: f"{worker.busy}/{worker.slots}",
    "release": "release",
    "host": "host",
    "pid": "pid",
    "version": "version",
}
"""The columns that an operator needs first come first, because a narrow screen cuts off the right."""

RUNNING: Columns = {
    "turn": "turn_id",
    "running": lambda turn: short_duration(turn.seconds),
    "attempt": "attempt",
    "tenant": "tenant_id",
    "session": "session_id",
    "queue": "queue",
    "worker": "worker_id",
}


async def read_worker_overview(
    operator: Operator, queue: str | None = None, *, lost_long_ago: bool = False
) -> list[WorkerOverview]:
    """Like `read_workers`, with their states. Raises DatabaseUnavailableError."""
    return [
        WorkerOverview(
            **asdict(worker),
            state=judge_worker(worker, operator.settings),
            seconds_since_heartbeat=max(0.0, (worker.read_at - worker.seen_at).total_seconds()),
        )
        for worker in await read_workers(operator.database, queue, lost_long_ago=lost_long_ago)
    ]
