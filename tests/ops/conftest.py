"""The command `turnstile` as operators run it, pointed at the test's own database and queue, with their role."""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.ops.invoke import Ran, invoke
from tests.support.process_roles import url_of
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.roles.kinds import Kind
from turnstile.process.logs import _at_least
from turnstile.telemetry.own_log import PROCESSORS

Turnstile = Callable[..., Awaitable[Ran]]


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    """What a shell would have to export to work with the test's own database, Redis and queue."""
    queues = [queue.model_dump(exclude_none=True) for queue in settings.queues]
    return {
        **os.environ,
        "DATABASE_URL": url_of(Kind.OPERATOR, settings.database_url),
        # `migrate` and `grant` run as the owner of the tables.
        "TURNSTILE_DATABASE_ROLES": json.dumps({"owner": urlsplit(settings.database_url).netloc.rpartition("@")[0]}),
        "REDIS_URL": settings.redis_url,
        "TURNSTILE_REDIS_PREFIX": settings.redis_prefix,
        "TURNSTILE_QUEUES": json.dumps(queues),
        "TURNSTILE_QUEUE": settings.queue,
        "TURNSTILE_LEASE_SECONDS": str(settings.lease_seconds),
        "TURNSTILE_RECEIVE_WAIT_SECONDS": "1",
        "COLUMNS": "80",
    }


@pytest.fixture
def turnstile(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Turnstile:
    """Runs a command to its end; `text` goes to its standard input. On a thread: a command has a loop of its own."""
    # It would leave the whole run's logs pointed at the command's standard error, which is closed afterwards.
    monkeypatch.setattr("turnstile.process.logs.configure", lambda settings: None)
    # As `load_settings` does.
    PROCESSORS.insert(0, _at_least(logging.WARNING))
    one_at_a_time = asyncio.Lock()

    async def run(*arguments: str, text: str = "", **more: str) -> Ran:
        if "DATABASE_URL" in more:
            # Of a role that the test has chosen.
            more = {"TURNSTILE_DATABASE_ROLES": "", **more}
        async with one_at_a_time:
            return await asyncio.to_thread(invoke, *arguments, text=text, **{**environment, **more})

    return run


@pytest.fixture
def one_deletion_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first message of each deletion has a handle that the real SQS refuses; the others are deleted."""
    really_call = MessageQueues._call

    async def call(self: MessageQueues, queue: str, operation: str, **parameters: Any) -> Any:
        if operation == "DeleteMessageBatch":
            first, *others = parameters["Entries"]
            parameters["Entries"] = [first | {"ReceiptHandle": "no handle of this queue"}, *others]
        return await really_call(self, queue, operation, **parameters)

    monkeypatch.setattr(MessageQueues, "_call", call)


@pytest.fixture
def why(turnstile: Turnstile) -> Any:
    """Asks why, and returns the document."""

    async def ask(*arguments: object, **environment: str) -> dict[str, Any]:
        ran = await turnstile("why", *map(str, arguments), "--json", **environment)
        assert ran.code == 0, ran.err
        document: dict[str, Any] = json.loads(ran.out)
        return document

    return ask
