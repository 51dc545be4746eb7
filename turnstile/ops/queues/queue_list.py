"""`turnstile queues list`: the declared queues, what waits in each, and who works on it."""

from turnstile.ops.queues.queue_overview import QUEUES, read_overview
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson
from turnstile.ops.terminal.output import print_json, print_table, say


def list_queues(as_json: AsJson = False) -> None:
    """List the declared queues: messages by SQS, backlog by the table, dead letters, workers, and who has paused them.

    messages: visible, in flight and delayed. due: turns that are due and not claimed; ready: those that are the heads of
    their sessions; oldest: for how long the oldest of these has been due; top tenant: who has the most of the due turns, and its
    share of them. workers: those that are well
    (a pause is no fault of theirs), of all.

    --json: queues, each with queue, purpose, owner, sqs (depth: visible, in_flight, delayed; dead_letters; error), backlog (as
    `turnstile stats --json`), top_tenant (null, or tenant_id, due, percent), halted_sessions, workers (by state), paused (null,
    or queue, paused_by, reason, paused_at). If SQS is away, sqs.error says so and the rest is there.
    """
    found = operate(load_settings(), read_overview)
    if as_json:
        print_json({"queues": found})
        return
    print_table(QUEUES, found)
    for one in found:
        if one.sqs.error is not None:
            say(f"the messages of queue {one.queue!r} are not known: {one.sqs.error}")
