"""The time limit of an invocation: nothing runs beyond it, and a turn that does not fit is handed back or times out."""

import threading
import time

import redis
import structlog.testing

from tests.support.probes import until
from tests.worker.aws_lambda.lambda_invocations import Site, never_end
from turnstile.handlers.context import Context, Turn
from turnstile.relay.loop import Relay


async def test_a_turn_that_does_not_fit_is_handed_back_in_time_and_answered_by_the_next_invocation(site: Site) -> None:
    one = site.function(never_end)
    # A function with a timeout of half a minute, most of which has passed.
    one._whole_seconds = 30.0
    await site.send("a")
    event = await site.source.poll(1)
    began = time.monotonic()

    assert await site.source.invoke(one, event, seconds=4.5) == []

    assert time.monotonic() - began < 4.5
    assert await site.rows("status", "attempt", "failures", "crashes", "owed") == [("PENDING", 0, 0, 0, True)]
    # After the end nothing may act on a lock or a lease: the container may be frozen.
    with redis.Redis.from_url(site.settings.redis_url) as keys:
        assert list(keys.scan_iter(f"{site.settings.redis_prefix}lock:*")) == []
    assert await site.database.fetch("SELECT worker_id FROM workers", {}) == []
    assert [thread for thread in threading.enumerate() if thread.name == "heartbeat"] == []

    await Relay(site.database, site.queues, site.settings).round()
    await site.invoke(1)

    assert await site.rows("status", "attempt") == [("SUCCEEDED", 1)]


async def test_a_turn_that_is_too_long_for_any_invocation_times_out(site: Site) -> None:
    """If it were handed back free of charge, it would begin again for ever."""
    await site.send("a")
    with structlog.testing.capture_logs() as lines:
        assert await site.invoke(1, site.function(never_end), seconds=5.0) == []

    [(attempt, failures)] = await site.rows("attempt", "failures")
    assert attempt == failures >= 1
    assert [line["timeout_seconds"] for line in lines if line["event"] == "lambda.attempts_are_cut"] == [20.0]


async def test_no_further_turn_begins_near_the_end(site: Site) -> None:
    await site.send("a", "a")
    longer = site.settings.model_copy(update={"grace_seconds": 60.0})
    event = await site.source.poll(2)
    with structlog.testing.capture_logs() as lines:

        async def take_until_the_end_is_near(_: Turn, __: Context) -> str:
            await until(lambda: [line for line in lines if line["event"] == "shutdown.draining"])
            return "ok"

        await site.source.invoke(site.function(take_until_the_end_is_near, longer), event, seconds=6.0)

    assert await site.rows("status", "owed") == [("SUCCEEDED", None), ("PENDING", True)]


async def test_no_message_that_waits_for_a_slot_begins_near_the_end(site: Site) -> None:
    await site.send("a", "b")
    narrow = site.settings.model_copy(update={"concurrency": 1, "grace_seconds": 60.0})
    event = await site.source.poll(2)
    with structlog.testing.capture_logs() as lines:

        async def take_until_the_end_is_near(_: Turn, __: Context) -> str:
            await until(lambda: [line for line in lines if line["event"] == "shutdown.draining"])
            return "ok"

        reported = await site.source.invoke(site.function(take_until_the_end_is_near, narrow), event, seconds=6.0)

    assert len(reported) == 1
    assert sorted(await site.rows("status", "attempt")) == [("PENDING", 0), ("SUCCEEDED", 1)]


async def test_without_time_no_turn_begins_and_all_messages_are_visible_at_once(site: Site) -> None:
    await site.send("a", "b")

    assert len(await site.invoke(2, seconds=2.0)) == 2

    assert await site.rows("status", "attempt") == [("PENDING", 0)] * 2
    assert await site.invoke(2) == []
