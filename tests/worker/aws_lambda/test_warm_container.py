"""Between two invocations of one container: connections are kept, locks and heartbeat are not."""

import threading
from typing import Any, cast

import pytest
import structlog.testing

from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.backends.postgres.database import Database
from turnstile.handlers.context import Context, Turn
from turnstile.relay.loop import Relay
from turnstile.worker.aws_lambda import lambda_handler as lambda_handler


async def test_a_warm_container_keeps_its_connections(site: Site) -> None:
    one = site.function()
    await site.send("a")
    await site.invoke(1, one)
    before = await _connections(site)
    await site.send("b")

    await site.invoke(1, one)

    assert before
    assert before <= await _connections(site)
    assert await site.rows("status") == [("SUCCEEDED",)] * 2


async def test_dead_connections_after_a_long_rest_are_not_an_outage(
    site: Site, monkeypatch: pytest.MonkeyPatch, superuser: Database
) -> None:
    one = site.function()
    await site.send("a")
    await site.invoke(1, one)
    await superuser.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnstile-lambda'"
        " AND datname = current_database()",
        {},
    )
    to_sqs = cast("Any", one._queues)._client._http
    monkeypatch.setattr(lambda_handler, "LONG_REST_SECONDS", 0.0)
    await site.send("b")

    with structlog.testing.capture_logs() as lines:
        await site.invoke(1, one)

    assert await site.rows("status") == [("SUCCEEDED",)] * 2
    assert "database.away" not in {line["event"] for line in lines}
    # Connections to SQS are made again as well.
    assert to_sqs.closed


async def test_a_handler_that_outlives_its_invocation_settles_nothing_later(site: Site) -> None:
    may_end = threading.Event()

    def deaf(_: Turn, __: Context) -> str:
        may_end.wait()
        return "too late"

    one = site.function(deaf)
    one._whole_seconds = 30.0
    await site.send("a")
    await site.invoke(1, one, seconds=4.5)
    assert await site.rows("status", "attempt") == [("PENDING", 0)]
    await Relay(site.database, site.queues, site.settings).round()
    await site.invoke(1)
    may_end.set()
    await site.send("b")

    await site.invoke(1, one)

    replies = await site.database.fetch("SELECT content FROM messages WHERE role = 'assistant' ORDER BY created_at", {})
    assert [row["content"] for row in replies] == ["a", "too late"]


async def _connections(site: Site) -> set[int]:
    found = await site.database.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnstile-lambda' AND datname = current_database()",
        {},
    )
    return {row["pid"] for row in found}
