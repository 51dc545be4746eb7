"""The time limit of an invocation: nothing runs beyond it, and a turn that does not fit is handed back or times out."""

import time

import structlog.testing

from tests.support.event_source import EventSource
from tests.support.invoking import MakeFunction, never_end, rows, send_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Context, Turn
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay


async def test_a_turn_that_does_not_fit_is_handed_back_free_of_charge_and_within_the_time(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function(never_end)
    # A function that has half a minute, of which this invocation finds little left.
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    event = await source.poll(1)
    began = time.monotonic()

    assert await source.invoke(one, event, seconds=12.0) == []

    assert time.monotonic() - began < 12.0
    assert await rows(database, "status", "attempt", "failures", "crashes", "owed") == [("PENDING", 0, 0, 0, True)]


async def test_what_was_handed_back_is_woken_by_the_relay_and_answered_by_the_next_invocation(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    one = function(never_end)
    one._whole_seconds = 30.0
    await send_turns(database, queues, settings, "a")
    await source.invoke(one, await source.poll(1), seconds=12.0)

    await Relay(database, queues, settings).round()
    await source.invoke(function(), await source.poll(1))

    assert await rows(database, "status", "attempt") == [("SUCCEEDED", 1)]


async def test_a_turn_that_no_invocation_is_long_enough_for_has_timed_out(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    """Handed back free of charge it would be begun again for ever."""
    await send_turns(database, queues, settings, "a")
    with structlog.testing.capture_logs() as lines:
        assert await source.invoke(function(never_end), await source.poll(1), seconds=14.0) == []

    [(attempt, failures)] = await rows(database, "attempt", "failures")
    assert attempt == failures >= 1
    assert [line["timeout_seconds"] for line in lines if line["event"] == "lambda.attempts_are_cut"] == [20.0]


async def test_towards_the_end_no_next_turn_of_a_session_is_begun(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    await send_turns(database, queues, settings, "a", "a")
    longer = settings.model_copy(update={"grace_seconds": 60.0})
    event = await source.poll(2)
    with structlog.testing.capture_logs() as lines:

        async def take_until_the_end_is_near(_: Turn, __: Context) -> str:
            await until(lambda: [line for line in lines if line["event"] == "shutdown.draining"])
            return "ok"

        await source.invoke(function(take_until_the_end_is_near, longer), event, seconds=14.0)

    assert await rows(database, "status", "owed") == [("SUCCEEDED", None), ("PENDING", True)]


async def test_without_time_nothing_is_begun_and_everything_is_visible_at_once(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    await send_turns(database, queues, settings, "a", "b")

    assert len(await source.invoke(function(), await source.poll(2), seconds=4.0)) == 2

    assert await rows(database, "status", "attempt") == [("PENDING", 0)] * 2
    assert await source.invoke(function(), await source.poll(2)) == []
