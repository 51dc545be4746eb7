"""`turnstile workers`: the worker processes, their states, and the turns that they run."""

from dataclasses import asdict
from typing import Any

import typer

from turnstile.config.settings import Settings
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, QueueName
from turnstile.ops.terminal.output import Columns, print_json, print_table, say, short_duration
from turnstile.queries.workers import RegisteredWorker, RunningTurn, judge_worker, read_running, read_workers


def workers(queue: QueueName = None, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List the worker processes, their states, and the turns that they run.

    State: well; draining (it is stopping); paused (its queue is); deaf (it receives nothing, though it has free slots);
    silent (its heartbeats have ended). --limit bounds the turns; those that run longest come first.

    --json: workers, and running (the turns, with their worker_id). A turn's worker is missing among the workers if it was
    lost long ago; another worker takes the turn over.
    """
    settings = load_settings()
    if queue is not None:
        settings.find_queue(queue)
    found, running = operate(settings, _read, queue, limit)
    if as_json:
        print_json({"workers": [as_document(worker, settings) for worker in found], "running": running})
        return
    columns: Columns = {
        "worker": "worker_id",
        "queue": "queue",
        "state": lambda worker: judge_worker(worker, worker.read_at, settings),
        "host": "host",
        "pid": "pid",
        "version": "version",
        "busy": lambda worker: f"{worker.busy}/{worker.slots}",
        "heartbeat": lambda worker: f"{short_duration(_seconds_since_heartbeat(worker))} ago",
    }
    print_table(columns, found)
    if running:
        typer.echo()
        _print_running(running)
    if len(running) == limit:
        say(f"the {limit} turns that run longest; there may be more (--limit)")


async def _read(operator: Operator, queue: str | None, limit: int) -> tuple[list[RegisteredWorker], list[RunningTurn]]:
    found = await read_workers(operator.database, queue)
    return found, await read_running(operator.database, queue, limit)


def as_document(worker: RegisteredWorker, settings: Settings) -> dict[str, Any]:
    """The worker for JSON, with its state."""
    return {
        **asdict(worker),
        "state": judge_worker(worker, worker.read_at, settings),
        "seconds_since_heartbeat": _seconds_since_heartbeat(worker),
    }


def _seconds_since_heartbeat(worker: RegisteredWorker) -> float:
    return max(0.0, (worker.read_at - worker.seen_at).total_seconds())


def _print_running(running: list[RunningTurn]) -> None:
    columns: Columns = {
        "turn": "turn_id",
        "running": lambda turn: short_duration(turn.seconds),
        "attempt": "attempt",
        "tenant": "tenant_id",
        "session": "session_id",
        "queue": "queue",
        "worker": "worker_id",
    }
    print_table(columns, running)
