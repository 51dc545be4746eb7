"""The declared queues, made where they are missing: for the local stack, tests and tries. Production has Terraform.

Each queue gets a dead-letter queue of its own (G27). Dead letters are sent there by us, explicitly; the RedrivePolicy
is only the backstop for messages that no worker ever came to terms with.
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
    """A queue of the settings as it stands in SQS."""

    name: str
    url: str
    dlq_url: str


def create_declared(settings: "Settings") -> list[DeclaredQueue]:
    """Makes what is missing; what is there stays as it is. Raises QueueUnavailableError, RegionMissingError.

    A queue that is declared by its URL belongs to somebody else and is left to him.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    from turnstile.backends.sqs.endpoint import SqsOptions, find_region
    from turnstile.errors import QueueUnavailableError

    find_region(SqsOptions(settings.aws_region, settings.sqs_endpoint_url))

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
        # With other attributes than ours: somebody has tuned it, and that is not ours to undo.
        if not error.response["Error"]["Code"].endswith(_EXISTS):
            raise
        answer = client.get_queue_url(QueueName=name)
    return str(answer["QueueUrl"])


@commands.callback()
def _group() -> None:
    # Without a callback Typer would make a group of one command into that command.
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
