"""What the screen shows, read at one moment. The same queries as those of `stats`, `queues list` and `workers`."""

from dataclasses import asdict, dataclass
from typing import Any

from turnstile.ops.queue_overview import QueueOverview, read_overview
from turnstile.ops.terminal.operator_access import Operator
from turnstile.ops.turn_document import turn_document
from turnstile.ops.worker_overview import WorkerOverview, read_worker_overview
from turnstile.queries.operator_turns import OperatorFilter, list_turns_of_all
from turnstile.queries.stats import Stats, read_stats
from turnstile.queries.turns import TurnRecord
from turnstile.queries.workers import RunningTurn, read_running
from turnstile.turn.status import TurnStatus

MOST_ROWS = 200
"""Of running turns and of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    stats: Stats
    queues: list[QueueOverview]
    workers: list[WorkerOverview]
    running: list[RunningTurn]
    """Those that run longest first."""
    failed: list[TurnRecord]
    """The newest first."""


async def take_snapshot(operator: Operator, since_seconds: float) -> Snapshot:
    """The figures are those of the turns that ended within `since_seconds`. Raises DatabaseUnavailableError."""
    database = operator.database
    return Snapshot(
        stats=await read_stats(database, since_seconds=since_seconds),
        queues=await read_overview(operator),
        workers=await read_worker_overview(operator),
        running=await read_running(database, None, MOST_ROWS),
        failed=await list_turns_of_all(database, OperatorFilter(status=TurnStatus.FAILED), MOST_ROWS),
    )


def as_document(snapshot: Snapshot) -> dict[str, Any]:
    """For JSON: as the commands that show a part of it."""
    return {**asdict(snapshot), "failed": [turn_document(turn) for turn in snapshot.failed]}
