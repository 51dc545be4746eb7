"""`turnstile queues`: list, pause and resume the declared queues; create missing ones.

`create` is for the local stack, tests and experiments. Production uses Terraform.

Each queue has its own dead-letter queue. Turnstile sends dead letters there explicitly; the RedrivePolicy is only a
backstop for messages that no worker can process.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from turnstile.backends.sqs.blocking_client import blocking_client
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.queues import pause_command
from turnstile.ops.queues.queue_overview import QUEUES, read_overview
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson, make_typer
from turnstile.ops.terminal.output import print_json, print_table, say

DEAD_LETTER_RETENTION_SECONDS = 14 * 86_400
MAX_RECEIVE_COUNT = 1000

commands = make_typer(help="The declared SQS queues.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A declared queue in SQS."""

    name: str
    url: str
    dlq_url: str


def create_declared(settings: Settings) -> list[DeclaredQueue]:
    """Creates missing queues and leaves existing ones unchanged. It blocks. Raises QueueUnavailableError, SettingsError.

    A queue that is declared by its URL has another owner and is never created.
    """
    with blocking_client(settings.aws_region, settings.sqs_endpoint_url) as client:
        return [_create_pair(client, queue) for queue in settings.queues]


def _create_pair(client: Any, queue: QueueSettings) -> DeclaredQueue:
    dlq_url = _create(client, queue.dlq, {"MessageRetentionPeriod": str(DEAD_LETTER_RETENTION_SECONDS)})
    answer = client.get_queue_attributes(QueueUrl=dlq_url, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": answer["Attributes"]["QueueArn"], "maxReceiveCount": str(MAX_RECEIVE_COUNT)}
    attributes = {
        "VisibilityTimeout": str(math.ceil(queue.visibility_seconds)),
        "RedrivePolicy": json.dumps(policy),
    }
    return DeclaredQueue(queue.name, _create(client, queue.sqs, attributes), dlq_url)


def _create(client: Any, name: str, attributes: dict[str, str]) -> str:
    if "://" in name:
        return name
    if name.endswith(".fifo"):
        attributes = {**attributes, "FifoQueue": "true"}
    try:
        return str(client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])
    except client.exceptions.QueueNameExists:
        # With other attributes: an operator has changed them, so they stay.
        return str(client.get_queue_url(QueueName=name)["QueueUrl"])


@commands.command("list")
def list_queues(as_json: AsJson = False) -> None:
    """List the declared queues: their messages, backlog, dead letters and workers, and who has paused them.

    messages: how many SQS has (visible/in flight/delayed). The backlog comes from the table. due: turns that are due and that no
    worker has claimed. ready: the due turns that are the heads of their sessions. oldest: how long the oldest ready turn has been
    due. top tenant: the tenant with the most due turns, and its share of them. DLQ: messages on the dead-letter queue. workers:
    how many work as they should, of how many; a worker of a paused queue does.

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


commands.command("pause")(pause_command.pause)
commands.command("resume")(pause_command.resume)


@commands.command()
def create(as_json: AsJson = False) -> None:
    """Create the declared queues and their dead-letter queues where they are missing (for development).

    --json: a list; each queue: name, url, dlq_url.
    """
    made = create_declared(load_settings())
    if as_json:
        print_json(made)
    else:
        print_table({"queue": "name", "url": "url", "dead letters": "dlq_url"}, made)
