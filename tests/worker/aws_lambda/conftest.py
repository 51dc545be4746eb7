"""Lambda functions, and the event source of the emulator's queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import sqs_client
from tests.support.event_source import EventSource
from tests.support.process_roles import as_worker
from tests.support.stacks.stack import Stack
from tests.worker.aws_lambda.lambda_invocations import MakeFunction, Site, answer
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.worker.aws_lambda import invocation as lambda_invocation
from turnstile.worker.aws_lambda.lambda_handler import Function


@pytest.fixture
def visibility_seconds() -> float:
    """No test sees a message again that was not given back."""
    return 600.0


@pytest.fixture(autouse=True)
def short_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to hand back on this machine, so that invocations may be short; and messages come back soon."""
    monkeypatch.setattr(lambda_invocation, "RESERVE_SECONDS", 2.5)
    monkeypatch.setattr(lambda_invocation, "MARGIN_SECONDS", 0.5)
    monkeypatch.setattr(lambda_invocation, "BACK_AFTER_SECONDS", 1)


@pytest.fixture
def source(stack: Stack, settings: Settings, queue: QueueSettings) -> EventSource:
    return EventSource(sqs_client(stack), queue)


@pytest.fixture
def function(settings: Settings) -> Iterator[MakeFunction]:
    """Makes functions; each is a container."""
    made: list[Function] = []

    def make(handler: Any = answer, settings: Settings = settings) -> Function:
        made.append(Function(as_worker(settings), Handler(handler), None))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def site(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> Site:
    return Site(database, queues, settings, source, function)
