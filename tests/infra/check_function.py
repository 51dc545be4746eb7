"""The Lambda function does its work under its role, with a secret that it reads itself; so does AWS's poller.

The emulator runs no function: a process does, with the role's credentials (function_container.py), and the poller is a stand-in.
"""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conftest import ROOT, sqs_client
from tests.e2e.harness import Product, process_environment
from tests.infra.emulator import client
from tests.support.event_source import EventSource
from tests.support.given_queues import GivenQueues, empty
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings

SECRET = "check-database-url"
PLENTY, NONE_LEFT = 30.0, 4.0


@pytest.fixture
def visibility_seconds() -> float:
    """So long that no message is seen again that nobody gave back."""
    return 120.0


@pytest.fixture
def source(given: GivenQueues, product: Product, queue: QueueSettings) -> EventSource:
    """AWS's poller, which uses the function's role."""
    return EventSource(client("sqs", given.processes["function"]), queue)


@pytest.fixture
def secret(given: GivenQueues, product: Product) -> str:
    """Where the function's settings say that its DATABASE_URL is."""
    secrets = client("secretsmanager", given.tests)
    return str(secrets.put_secret_value(SecretId=SECRET, SecretString=product.settings.database_url)["ARN"])


async def invoke(
    given: GivenQueues, product: Product, secret: str, *orders: tuple[dict[str, Any], float]
) -> list[dict[str, Any]]:
    """The answers of one container to events, each with so many seconds left."""
    own = product.settings.find_queue(product.settings.queue)
    environment = process_environment(product.settings, "function") | {
        "TURNSTILE_QUEUES": json.dumps([own.model_dump(), given.fifo]),
        "TURNSTILE_SECRETS": json.dumps({"DATABASE_URL": secret}),
        "TURNSTILE_HANDLER": "tests.infra.function_container:answer",
        "TURNSTILE_RELAY": "false",
    }
    del environment["DATABASE_URL"]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.infra.function_container"],
        env=environment,
        cwd=ROOT,
        input="".join(json.dumps({"event": event, "seconds": seconds}) + "\n" for event, seconds in orders),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "AccessDenied" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_the_function_answers_under_its_role_with_the_secret_that_it_reads(
    given: GivenQueues, product: Product, source: EventSource, secret: str, stack: Stack, queue: QueueSettings
) -> None:
    empty(sqs_client(stack), given.fifo["sqs"])
    await product.submit("hello", session="a")
    await product.submit("parent", session="b")
    sqs_client(stack).send_message(QueueUrl=queue.sqs, MessageBody="nobody understands this")
    event = await source.poll(3)

    late, answered = await invoke(given, product, secret, (event, NONE_LEFT), (event, PLENTY))

    # Without time nothing is begun, and everything is made visible at once; the event is still the container's to answer.
    assert len(late["batchItemFailures"]) == 3
    assert await source.heed(event, answered) == []
    assert await product.queues.count(product.settings.queue, dead=True) == 1
    assert sorted(row["status"] for row in await product.rows()) == ["PENDING", "PENDING", "SUCCEEDED", "SUCCEEDED"]
    # Its children's wake-ups, on its own queue and on the other.
    woken = [
        *(await source.poll(1))["Records"],
        *sqs_client(stack).receive_message(QueueUrl=given.fifo["sqs"])["Messages"],
    ]
    waiting = await product.rows("status = 'PENDING'")
    bodies = [json.loads(one.get("body") or one["Body"]) for one in woken]
    assert {body["turn_id"] for body in bodies} == {str(row["id"]) for row in waiting}


def test_the_poller_looks_at_the_queue_under_the_same_role(given: GivenQueues) -> None:
    poller = client("sqs", given.processes["function"])

    assert "Attributes" in poller.get_queue_attributes(QueueUrl=given.standard["sqs"], AttributeNames=["All"])


def test_the_function_reads_no_secret_but_those_it_is_given(given: GivenQueues) -> None:
    other = client("secretsmanager", given.tests).create_secret(Name="check-somebody-elses", SecretString="x")

    try:
        with pytest.raises(ClientError, match="AccessDenied"):
            client("secretsmanager", given.processes["function"]).get_secret_value(SecretId=other["ARN"])
    finally:
        client("secretsmanager", given.tests).delete_secret(SecretId=other["ARN"], ForceDeleteWithoutRecovery=True)
