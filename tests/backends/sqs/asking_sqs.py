"""A client of a scripted SQS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import turnstile.backends.sqs.sqs_client
from tests.support.scripted_sqs import Act, ScriptedSqs, scripted
from turnstile.backends.sqs.sqs_client import SqsClient

COMMAND = "DeleteMessageBatch"
CUT = Act(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", closes=True)


def give_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, no proxy, and no wait before a second try."""
    given = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "NO_PROXY": "127.0.0.1,localhost,sqs.test"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "RETRY_SECONDS", 0.0)


@asynccontextmanager
async def asking(*acts: Act) -> AsyncIterator[tuple[SqsClient, ScriptedSqs]]:
    async with scripted(*acts) as sqs:
        client = SqsClient.open("us-east-1", sqs.address)
        try:
            yield client, sqs
        finally:
            await client.close()
