"""A hand on a scripted SQS, by either transport."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

import pytest

import turnstile.backends.sqs.http_calls
from tests.support.scripted_sqs import Act, ScriptedSqs, scripted
from turnstile.backends.sqs.boto3_transport import Boto3Transport
from turnstile.backends.sqs.lean_transport import LeanTransport
from turnstile.backends.sqs.transport import Answer
from turnstile.config.settings import Settings

TransportName = Literal["boto3", "lean"]
OnTheLoop = Boto3Transport | LeanTransport
Opened = Callable[..., AbstractAsyncContextManager[tuple[OnTheLoop, ScriptedSqs]]]
"""`either`, of one name."""

COMMAND = "DeleteMessageBatch"
CUT = Act(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", closes=True)


def give_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, no proxy, and no wait before a second try."""
    given = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "NO_PROXY": "127.0.0.1,localhost,sqs.test"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(turnstile.backends.sqs.http_calls, "RETRY_SECONDS", 0.0)


def settings_for(address: str | None, transport: TransportName = "lean") -> Settings:
    """Short polls of that address."""
    return Settings(sqs_endpoint_url=address, aws_region="us-east-1", sqs_transport=transport, receive_wait_seconds=1)


@asynccontextmanager
async def either(name: TransportName, *acts: Act) -> AsyncIterator[tuple[OnTheLoop, ScriptedSqs]]:
    """The one of that name."""
    async with scripted(*acts) as sqs:
        transport = make(settings_for(sqs.address, name))
        yield transport, sqs
        transport.close()


def make(settings: Settings) -> OnTheLoop:
    """The transport that the settings name."""
    return LeanTransport(settings) if settings.sqs_transport == "lean" else Boto3Transport(settings)


def said(answered: Answer) -> Answer:
    """What SQS has said: boto3 adds a word of its own."""
    return {name: value for name, value in answered.items() if name != "ResponseMetadata"}
