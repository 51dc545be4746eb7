"""`turnstile workers`: the worker processes, their states, and the turns that they run."""

from typing import Annotated

import typer

from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, QueueName
from turnstile.ops.terminal.output import plural, print_json, print_table, print_text, say
from turnstile.ops.workers.worker_overview import RUNNING, WORKERS, WorkerOverview, read_worker_overview
from turnstile.queries.workers import RunningTurn, read_running

LostLongAgo = Annotated[
    bool, typer.Option("--all", help="Also list workers that were lost more than ten minutes ago, for about a day.")
]


def workers(
    queue: QueueName = None, limit: Limit = 50, lost_long_ago: LostLongAgo = False, as_json: AsJson = False
) -> None:
    """List the worker processes, their states, and the turns that they run.

    State: well; draining (it is stopping); blocked (a handler blocks its event loop, and for how long); starved
    (Postgres answers its heartbeat but no other call); broken (its handler met the same error in each of its first
    turns: it takes no turns); paused (its queue is paused); deaf (it has free slots but
    receives nothing); silent (its heartbeats have stopped); lost (a relay has declared it lost, and its turns are taken
    over). Ten minutes later a lost worker is left out, here and in `queues list` and `top`; --all shows it.

    Slots and busy slots are those of the last heartbeat. --limit bounds the turns; those that run longest come first.

    --json: workers: worker_id, queue, state, host, pid, version (of Turnstile), release (of the handler:
    TURNSTILE_RELEASE), slots, busy, draining, paused, deaf_for_seconds, blocked_for_seconds, blocked_by (the turn whose
    handler does it; null: unknown), starved_for_seconds, broken_by (the class of the error), lease_seconds, started_at,
    seen_at (its last heartbeat), lost_at, alive, seconds_since_heartbeat, read_at. running: worker_id, turn_id,
    tenant_id, session_id, queue, attempt, started_at, lease_until, seconds. The worker of a turn may be missing among the
    workers: it was lost long ago, and another worker takes the turn over.
    """
    settings = load_settings()
    settings.select_queues(queue)
    found, running = operate(settings, _read, queue, limit, lost_long_ago)
    if as_json:
        print_json({"workers": found, "running": running})
        return
    print_table(WORKERS, found)
    if running:
        print_text()
        print_table(RUNNING, running)
    if len(running) == limit:
        say(f"{plural(limit, 'turn')}, the longest first; there may be more (--limit)")


async def _read(
    operator: Operator, queue: str | None, limit: int, lost_long_ago: bool
) -> tuple[list[WorkerOverview], list[RunningTurn]]:
    found = await read_worker_overview(operator, queue, lost_long_ago=lost_long_ago)
    return found, await read_running(operator.database, queue, limit)
