"""`turnstile queues list`: the declared queues, what waits in each, and who works on it."""

from turnstile.ops.queue_overview import QueueOverview, read_overview
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson
from turnstile.ops.terminal.output import Columns, print_json, print_table, say, short_duration, short_time
from turnstile.queries.workers import WorkerState


def list_queues(as_json: AsJson = False) -> None:
    """List the declared queues: messages by SQS, backlog by the table, dead letters, workers, and who has paused them.

    messages: visible, in flight and delayed. due: turns that are due and not claimed; ready: those that are the heads of
    their sessions; oldest: for how long the oldest of these has been due. workers: those that are well, of all.

    --json: queues, each with queue, purpose, owner, sqs (depth, dead_letters, error), backlog, halted_sessions, workers (by
    state), paused (null, or paused_by, reason, paused_at). If SQS is away, sqs.error says so and the rest is there.
    """
    found = operate(load_settings(), read_overview)
    if as_json:
        print_json({"queues": found})
        return
    columns: Columns = {
        "queue": "queue",
        "messages": _messages,
        "due": lambda one: f"{one.backlog.due}{'+' if one.backlog.truncated else ''}",
        "ready": lambda one: one.backlog.ready,
        "running": lambda one: one.backlog.running,
        "oldest": lambda one: short_duration(one.backlog.oldest_seconds) if one.backlog.ready else "",
        "DLQ": lambda one: "?" if one.sqs.error is not None else one.sqs.dead_letters,
        "halted": "halted_sessions",
        "workers": lambda one: f"{one.workers.get(WorkerState.WELL, 0)}/{one.all_workers}",
        "paused": _paused,
        "owner": "owner",
        "purpose": "purpose",
    }
    print_table(columns, found)
    for one in found:
        if one.sqs.error is not None:
            say(f"the messages of queue {one.queue!r} are not known: {one.sqs.error}")


def _messages(one: QueueOverview) -> str:
    depth = one.sqs.depth
    return "SQS is away" if depth is None else f"{depth.visible}/{depth.in_flight}/{depth.delayed}"


def _paused(one: QueueOverview) -> str:
    if one.paused is None:
        return ""
    reason = f": {one.paused.reason}" if one.paused.reason else ""
    return f"by {one.paused.paused_by} since {short_time(one.paused.paused_at)}{reason}"
