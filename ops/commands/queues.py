"""Creates missing declared queues, for the local stack, tests and experiments. Production uses Terraform.

Each queue has its own dead-letter queue (G27). Turnstile sends dead letters there explicitly; the RedrivePolicy is only a
backstop for messages that no worker can process.
"""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from turnstile.ops.terminal.output import AsJson

if TYPE_CHECKING:
    from turnstile.config.queue_settings import QueueSettings
    from turnstile.config.settings import Settings

DEAD_LETTER_RETENTION_SECONDS = 14 * 86_400
MAX_RECEIVE_COUNT = 1000
_EXISTS = ("QueueAlreadyExists", "QueueNameExists")

commands = typer.Typer(help="The declared SQS queues.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A declared queue in SQS."""

    name: str
    url: str
    dlq_url: str


def create_declared(settings: "Settings") -> list[DeclaredQueue]:
    """Creates missing queues and leaves existing ones unchanged. Raises QueueUnavailableError, RegionMissingError.

    A queue that is declared by its URL has another owner and is never created.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    from turnstile.backends.sqs.endpoint import find_region
    from turnstile.errors import QueueUnavailableError

    find_region(settings.aws_region)

    client = boto3.session.Session().client(
        "sqs",
        region_name=settings.aws_region,
        endpoint_url=settings.sqs_endpoint_url,
        config=Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"}),
    )
    try:
        return [_create_pair(client, queue) for queue in settings.queues]
    except (BotoCoreError, ClientError) as error:
        raise QueueUnavailableError(f"{type(error).__name__}: {error}") from error


def _create_pair(client: Any, queue: "QueueSettings") -> DeclaredQueue:
    dlq_url = _create(client, queue.dlq, {"MessageRetentionPeriod": str(DEAD_LETTER_RETENTION_SECONDS)})
    answer = client.get_queue_attributes(QueueUrl=dlq_url, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": answer["Attributes"]["QueueArn"], "maxReceiveCount": str(MAX_RECEIVE_COUNT)}
    attributes = {
        "VisibilityTimeout": str(math.ceil(queue.visibility_seconds)),
        "RedrivePolicy": json.dumps(policy),
    }
    return DeclaredQueue(queue.name, _create(client, queue.sqs, attributes), dlq_url)


def _create(client: Any, name: str, attributes: dict[str, str]) -> str:
    from botocore.exceptions import ClientError

    if "://" in name:
        return name
    if name.endswith(".fifo"):
        attributes = {**attributes, "FifoQueue": "true"}
    try:
        answer = client.create_queue(QueueName=name, Attributes=attributes)
    except ClientError as error:
        # The queue exists with other attributes: an operator has changed them, so they stay.
        if not error.response["Error"]["Code"].endswith(_EXISTS):
            raise
        answer = client.get_queue_url(QueueName=name)
    return str(answer["QueueUrl"])


@commands.callback()
def _group() -> None:
    # Without a callback, Typer would replace a group of one command with that command.
    """The declared SQS queues."""


@commands.command()
def create(as_json: AsJson = False) -> None:
    """Create the declared queues and their dead-letter queues where they are missing (for development)."""
    from turnstile.ops.terminal.operator_access import load_settings
    from turnstile.ops.terminal.output import print_json, print_table

    made = create_declared(load_settings())
    if as_json:
        print_json(made)
    else:
        print_table(("queue", "url", "dead letters"), [(queue.name, queue.url, queue.dlq_url) for queue in made])
