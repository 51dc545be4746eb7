"""An invocation: the turns of its batch are answered, and messages that can't be processed now are reported."""

import asyncio
import threading
import time

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Retry
from turnstile.turn.wire_format import decode
from turnstile.worker.aws_lambda import invocation as lambda_invocation
from turnstile.worker.session_lock import name_lock


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_batch_is_answered_and_no_message_reported(site: Site) -> None:
    answered: list[tuple[str, int]] = []
    await site.send("a", "b", "b", "b")

    async def note(turn: Turn, _: Context) -> str:
        answered.append((turn.session_id, turn.seq))
        return "ok"

    assert await site.invoke(4, site.function(note)) == []

    assert await site.rows("status", "attempt") == [("SUCCEEDED", 1)] * 4
    assert sorted(answered) == [("a", 1), ("b", 1), ("b", 2), ("b", 3)]
    assert [seq for session, seq in answered if session == "b"] == [1, 2, 3]
    assert await site.queues.count(site.settings.queue) == 0


async def test_the_message_of_a_turn_that_is_retried_is_not_reported(site: Site) -> None:
    async def fail(_: Turn, __: Context) -> None:
        raise Retry(after=600)

    await site.send("a")

    assert await site.invoke(1, site.function(fail)) == []

    assert await site.rows("status", "failures") == [("PENDING", 1)]


async def test_the_message_of_a_busy_session_is_not_reported(site: Site) -> None:
    """The other worker has the waiting mark and looks once more."""
    lock = OwnSessionLock(site.settings)
    other_lock = name_lock(site.settings, "t", "a", "other")
    await lock.acquire(other_lock)
    await site.send("a", "b")

    assert await site.invoke(2) == []

    assert await site.rows("status") == [("PENDING",), ("SUCCEEDED",)]
    assert (await lock.release(other_lock)).value == "look again"
    await lock.close()


async def test_the_message_of_a_session_with_a_locked_row_is_reported(site: Site) -> None:
    """Its row can't be written: without the message, the next wake-up would come at the resend deadline."""
    await site.send("a", "b")

    with psycopg.connect(site.settings.database_url) as other, capture_logs() as lines:
        other.execute("SELECT 1 FROM turns WHERE session_id = 'a' FOR NO KEY UPDATE")
        kept = await site.invoke(2)
        other.rollback()

    assert [decode(body).session_id for body in kept] == ["a"]
    # Not at once: it would meet the same lock.
    back = [(line["messages"], line["after_seconds"]) for line in lines if line["event"] == "lambda.given_back"]
    assert back == [(1, lambda_invocation.BACK_AFTER_SECONDS)]
    assert await site.rows("status") == [("PENDING",), ("SUCCEEDED",)]
    assert await site.invoke(1) == []
    assert await site.rows("status") == [("SUCCEEDED",), ("SUCCEEDED",)]


@pytest.mark.parametrize("fifo", [True])
async def test_a_session_of_a_fifo_queue_does_not_wait_for_the_slowest_turn_of_its_batch(site: Site) -> None:
    """Its message is deleted when its claim is committed, so that the next one of its group can be delivered."""
    slow_may_end = threading.Event()

    async def wait_if_slow(turn: Turn, _: Context) -> str:
        if turn.session_id == "slow":
            await asyncio.to_thread(slow_may_end.wait)
        return "ok"

    await site.send("slow", "quick")
    first = asyncio.create_task(site.invoke(2, site.function(wait_if_slow)))
    await until(lambda: _succeeded(site, "quick"))
    await site.send("quick")

    await site.invoke(1)

    slow_may_end.set()
    assert await first == []
    assert await site.rows("session_id", "status") == [
        ("quick", "SUCCEEDED"), ("quick", "SUCCEEDED"), ("slow", "SUCCEEDED"),
    ]  # fmt: skip


async def _succeeded(site: Site, session: str) -> bool:
    return (session, "SUCCEEDED") in await site.rows("session_id", "status")


async def test_while_postgres_is_away_all_messages_are_reported_in_time_and_come_back_soon(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_invocation, "RESERVE_SECONDS", 5.0)
    await site.send("a", "b")
    away = site.settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/none"})
    event = await site.source.poll(2)
    began = time.monotonic()

    assert len(await site.source.invoke(site.function(settings=away), event, seconds=6.0)) == 2

    assert time.monotonic() - began < 6.0
    assert await site.invoke(2) == []
    assert await site.rows("status", "attempt") == [("SUCCEEDED", 1)] * 2
