"""A hand on a scripted SQS, by either transport."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

import turns.lean_transport
from tests.integration.scripted_sqs import Act, ScriptedSqs, scripted
from turns.boto3_transport import Boto3Transport
from turns.lean_transport import LeanTransport
from turns.settings import Settings
from turns.sqs_transport import SqsTransport

TransportName = Literal["boto3", "lean"]
COMMAND = "DeleteMessageBatch"
CUT = Act(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", closes=True)


def give_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, no proxy, and no wait before a second try."""
    given = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "NO_PROXY": "127.0.0.1,localhost,sqs.test"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(turns.lean_transport, "RETRY_SECONDS", 0.0)


def settings_for(address: str | None, transport: TransportName = "lean") -> Settings:
    """Short polls of that address."""
    return Settings(sqs_endpoint_url=address, aws_region="us-east-1", sqs_transport=transport, receive_wait_seconds=1)


@asynccontextmanager
async def lean(*acts: Act) -> AsyncIterator[tuple[LeanTransport, ScriptedSqs]]:
    """The lean one."""
    async with scripted(*acts) as sqs:
        transport = LeanTransport(settings_for(sqs.address))
        yield transport, sqs
        transport.close()


@asynccontextmanager
async def either(name: TransportName, *acts: Act) -> AsyncIterator[tuple[SqsTransport, ScriptedSqs]]:
    """The one of that name."""
    async with scripted(*acts) as sqs:
        settings = settings_for(sqs.address, name)
        transport = LeanTransport(settings) if name == "lean" else Boto3Transport(settings)
        yield transport, sqs
        transport.close()
