"""A gate in front of SQS, and clients behind it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from tests.proof.proxy.control import ProxyControl
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import WakeUp


@pytest.fixture
def database_url() -> str:
    """No database is made: nothing here asks one."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
def url(plain: Any, queue: QueueSettings) -> str:
    """The queue's URL as a client behind the proxy sees it."""
    return str(plain.get_queue_url(QueueName=queue.sqs)["QueueUrl"])


@pytest.fixture
async def sqs_port(proxy: ProxyControl) -> int:
    return await proxy.open("sqs", "worker-1")


@pytest.fixture
async def behind(settings: Settings, sqs_port: int) -> AsyncIterator[MessageQueues]:
    """The product's SQS client behind the proxy. (`queues` is past it.)"""
    opened = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": f"http://127.0.0.1:{sqs_port}"}))
    yield opened
    await opened.close()


@pytest.fixture
def plain(sqs_port: int, settings: Settings) -> Any:
    """A plain boto3 client behind the proxy, which retries nothing."""
    return boto3.client(
        "sqs",
        endpoint_url=f"http://127.0.0.1:{sqs_port}",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )


def wake_up(session: str = "s") -> OutgoingMessage:
    return OutgoingMessage(WakeUp("t", session, uuid4()), "")


async def receive(queues: MessageQueues, queue: str, many: int = 1, *, dead: bool = False) -> list[ReceivedMessage]:
    """That many messages, in as many polls as it takes."""
    found: list[ReceivedMessage] = []

    async with asyncio.timeout(30.0):
        while len(found) < many:
            found.extend(await queues.receive(queue, 10, dead=dead))
    return found
