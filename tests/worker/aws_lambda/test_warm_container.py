"""Between two invocations of one container: connections are kept, locks and heartbeat are not."""

import threading
from typing import Any, cast

import pytest
import redis
import structlog.testing

from tests.support.event_source import EventSource
from tests.support.invoking import MakeFunction, never_end, rows, send_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Context, Turn
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


async def test_a_container_that_has_rested_long_does_not_take_its_dead_connections_for_an_outage(
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
    # Nobody knows what has become of those either.
    assert to_sqs.closed


async def test_after_an_invocation_nothing_is_held_and_no_heartbeat_beats(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
) -> None:
    one = function(never_end)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")

    await source.invoke(one, await source.poll(1), seconds=12.0)

    with redis.Redis.from_url(settings.redis_url) as looking:
        assert list(looking.scan_iter(f"{settings.redis_prefix}lock:*")) == []
    assert await database.fetch("SELECT worker_id FROM workers", {}) == []
    assert [thread for thread in threading.enumerate() if thread.name == "heartbeat"] == []


async def test_a_handler_that_outlives_its_invocation_answers_nothing_after_the_thaw(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    may_end = threading.Event()

    def deaf(_: Turn, __: Context) -> str:
        may_end.wait()
        return "too late"

    one = function(deaf)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1), seconds=12.0)
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
