"""Between two invocations of one container: connections are kept, locks and heartbeat are not."""

import threading
from typing import Any, cast

import pytest
import structlog.testing

from tests.support.event_source import EventSource
from tests.worker.aws_lambda.lambda_invocations import MakeFunction, rows, send_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.worker.aws_lambda import handler as lambda_handler


async def test_a_warm_container_keeps_its_connections(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function()
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1))
    before = await _connections(database)
    await send_turns(database, queues, settings, "b")

    await source.invoke(one, await source.poll(1))

    assert before
    assert before <= await _connections(database)
    assert await rows(database, "status") == [("SUCCEEDED",)] * 2


async def test_dead_connections_after_a_long_rest_are_no_outage(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = function()
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1))
    await database.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnstile-lambda'"
        " AND datname = current_database()",
        {},
    )
    to_sqs = cast("Any", one._queues)._client._http
    monkeypatch.setattr(lambda_handler, "LONG_REST_SECONDS", 0.0)
    await send_turns(database, queues, settings, "b")

    with structlog.testing.capture_logs() as lines:
        await source.invoke(one, await source.poll(1))

    assert await rows(database, "status") == [("SUCCEEDED",)] * 2
    assert "database.away" not in {line["event"] for line in lines}
    # Connections to SQS are made anew as well.
    assert to_sqs.closed


async def test_a_handler_that_outlives_its_invocation_settles_nothing_later(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
) -> None:
    may_end = threading.Event()

    def deaf(_: Turn, __: Context) -> str:
        may_end.wait()
        return "too late"

    one = function(deaf)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1), seconds=4.5)
    assert await rows(database, "status", "attempt") == [("PENDING", 0)]
    await Relay(database, queues, settings).round()
    await source.invoke(function(), await source.poll(1))
    may_end.set()
    await send_turns(database, queues, settings, "b")

    await source.invoke(one, await source.poll(1))

    replies = await database.fetch("SELECT content FROM messages WHERE role = 'assistant' ORDER BY created_at", {})
    assert [row["content"] for row in replies] == ["a", "too late"]


async def _connections(database: Database) -> set[int]:
    found = await database.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnstile-lambda' AND datname = current_database()",
        {},
    )
    return {row["pid"] for row in found}
