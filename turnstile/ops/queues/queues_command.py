"""`turnstile queues`: list, pause and resume the declared queues; create missing ones.

`create` is for the local stack, tests and experiments. Production uses Terraform.

Each queue has its own dead-letter queue (G27). Turnstile sends dead letters there explicitly; the RedrivePolicy is only a
backstop for messages that no worker can process.
"""

import asyncio
import json
import math
from dataclasses import dataclass

from turnstile.backends.sqs.sqs_client import CallRefusedError, SqsClient
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.queues import pause_command
from turnstile.ops.queues.queue_overview import QUEUES, read_overview
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson, make_typer
from turnstile.ops.terminal.output import print_json, print_table, say

DEAD_LETTER_RETENTION_SECONDS = 14 * 86_400
MAX_RECEIVE_COUNT = 1000
_EXISTS = ("QueueAlreadyExists", "QueueNameExists")

commands = make_typer(help="The declared SQS queues.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A declared queue in SQS."""

    name: str
    url: str
    dlq_url: str


async def create_declared(settings: Settings) -> list[DeclaredQueue]:
    """Creates missing queues and leaves existing ones unchanged. Raises QueueUnavailableError, RegionMissingError.

    A queue that is declared by its URL has another owner and is never created.
    """
    client = SqsClient.open(settings.aws_region, settings.sqs_endpoint_url)
    try:
        return [await _create_pair(client, queue) for queue in settings.queues]
    finally:
        await client.close()


async def _create_pair(client: SqsClient, queue: QueueSettings) -> DeclaredQueue:
    dlq_url = await _create(client, queue.dlq, {"MessageRetentionPeriod": str(DEAD_LETTER_RETENTION_SECONDS)})
    answer = await client.call("GetQueueAttributes", {"QueueUrl": dlq_url, "AttributeNames": ["QueueArn"]})
    policy = {"deadLetterTargetArn": answer["Attributes"]["QueueArn"], "maxReceiveCount": str(MAX_RECEIVE_COUNT)}
    attributes = {
        "VisibilityTimeout": str(math.ceil(queue.visibility_seconds)),
        "RedrivePolicy": json.dumps(policy),
    }
    return DeclaredQueue(queue.name, await _create(client, queue.sqs, attributes), dlq_url)


async def _create(client: SqsClient, name: str, attributes: dict[str, str]) -> str:
    if "://" in name:
        return name
    if name.endswith(".fifo"):
        attributes = {**attributes, "FifoQueue": "true"}
    try:
        answer = await client.call("CreateQueue", {"QueueName": name, "Attributes": attributes})
    except CallRefusedError as error:
        # The queue exists with other attributes: an operator has changed them, so they stay.
        if not error.code.endswith(_EXISTS):
            raise
        answer = await client.call("GetQueueUrl", {"QueueName": name})
    return str(answer["QueueUrl"])


@commands.command("list")
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


commands.command("pause")(pause_command.pause)
commands.command("resume")(pause_command.resume)


@commands.command()
def create(as_json: AsJson = False) -> None:
    """Create the declared queues and their dead-letter queues where they are missing (for development).

    --json: a list; each queue: name, url, dlq_url.
    """
    made = asyncio.run(create_declared(load_settings()))
    if as_json:
        print_json(made)
    else:
        print_table({"queue": "name", "url": "url", "dead letters": "dlq_url"}, made)
