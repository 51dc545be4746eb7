"""An attempt that is stopped: the handler is cancelled, is told why, and what it says afterwards does not count."""

import asyncio
import concurrent.futures
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.attempting import LONG, Bench, wait_forever
from turnstile.handlers.handler import Context, Turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt.outcome import Stopped, StopReason, Succeeded


@pytest.mark.parametrize("reason", StopReason)
async def test_a_handler_that_is_stopped_is_cancelled(bench: Bench, reason: StopReason) -> None:
    async def dawdle(*_: Any) -> None:
        bench.began.set()
        await wait_forever()

    assert bench.context.cancel_reason is None
    assert await bench.stopped(bench.attempt(dawdle), reason) == Stopped(reason)
    assert bench.context.cancelled
    assert bench.context.cancel_reason is reason.told


async def test_a_handler_is_told_the_reason_that_the_row_has_and_the_first_one_counts(bench: Bench) -> None:
    async def dawdle(*_: Any) -> None:
        bench.began.set()
        await wait_forever()

    attempt = bench.attempt(dawdle)
    running = asyncio.create_task(attempt.run(LONG, LONG))
    await bench.began.wait()
    attempt.stop(StopReason.CANCELED, CancelReason.SUPERSEDED)
    attempt.stop(StopReason.CANCELED, CancelReason.USER)

    assert await running == Stopped(StopReason.CANCELED)
    assert bench.context.cancel_reason is CancelReason.SUPERSEDED


@pytest.mark.parametrize("reason", StopReason)
async def test_an_attempt_that_is_stopped_before_it_runs_never_calls_the_handler(
    bench: Bench, reason: StopReason
) -> None:
    called: list[object] = []
    attempt = bench.attempt(lambda *_: called.append(1))
    attempt.stop(reason)

    assert await attempt.run(LONG, LONG) == Stopped(reason)
    assert called == []


async def test_the_first_reason_to_stop_counts(bench: Bench) -> None:
    attempt = bench.attempt(lambda *_: None)
    for reason in (StopReason.SUPERSEDED, StopReason.CANCELED, StopReason.SHUTDOWN):
        attempt.stop(reason)

    assert await attempt.run(LONG, LONG) == Stopped(StopReason.SUPERSEDED)


async def test_a_stop_that_comes_after_the_end_changes_nothing(bench: Bench) -> None:
    attempt = bench.attempt(lambda *_: "done")

    assert await attempt.run(LONG, LONG) == Succeeded("done")
    attempt.stop(StopReason.CANCELED)


@pytest.mark.parametrize("reason", StopReason)
async def test_what_a_handler_returns_once_it_was_cancelled_is_no_answer(bench: Bench, reason: StopReason) -> None:
    async def break_off(*_: Any) -> str:
        bench.began.set()
        try:
            await wait_forever()
        except asyncio.CancelledError:
            return "as far as I had c"
        return "never"

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


@pytest.mark.parametrize("look", [lambda ctx: ctx.cancelled, lambda ctx: ctx.cancel_reason], ids=["whether", "why"])
async def test_what_a_thread_returns_once_it_has_seen_that_it_shall_stop_is_no_answer(
    bench: Bench, look: Callable[[Context], object]
) -> None:
    loop = asyncio.get_running_loop()

    def break_off(_: Turn, ctx: Context) -> str:
        loop.call_soon_threadsafe(bench.began.set)
        while not look(ctx):
            pass
        return "as far as I had c"

    assert await bench.stopped(bench.attempt(break_off), StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)


async def test_what_a_thread_returns_once_a_call_of_its_was_cancelled_is_no_answer(bench: Bench) -> None:
    async def ask() -> None:
        bench.began.set()
        await wait_forever()

    def break_off(_: Turn, ctx: Context) -> str:
        try:
            ctx.wait_for(ask())
        except concurrent.futures.CancelledError:
            return "as far as I had c"
        return "never"

    assert await bench.stopped(bench.attempt(break_off), StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)


async def test_a_shutdown_shortens_the_grace_of_whatever_is_on_its_way_out(bench: Bench) -> None:
    release = asyncio.Event()
    attempt = bench.attempt(bench.deaf_until(release))
    running = asyncio.create_task(attempt.run(LONG, 10 * LONG))
    await bench.began.wait()
    attempt.stop(StopReason.CANCELED)
    attempt.stop(StopReason.SHUTDOWN)

    assert await asyncio.wait_for(running, LONG) == Stopped(StopReason.CANCELED)
    release.set()


@pytest.mark.parametrize("reason", StopReason)
async def test_a_failure_on_the_way_out_is_the_stops_and_not_the_handlers(bench: Bench, reason: StopReason) -> None:
    async def break_off(*_: Any) -> None:
        bench.began.set()
        try:
            await wait_forever()
        finally:
            raise ValueError("what the user said")

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


async def test_a_handler_that_ignores_its_stop_is_left_behind(bench: Bench) -> None:
    release = asyncio.Event()
    attempt = bench.attempt(bench.deaf_until(release))

    assert await bench.stopped(attempt, StopReason.SHUTDOWN, grace=0.05) == Stopped(StopReason.SHUTDOWN)
    assert attempt.left_behind is not None
    release.set()
    await attempt.left_behind


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="the forgotten exception shows at once with CPython only")
@pytest.mark.parametrize("how", ["timeout", StopReason.CANCELED, StopReason.SHUTDOWN])
async def test_what_is_raised_on_the_way_out_is_not_reported_as_forgotten(bench: Bench, how: str) -> None:
    """asyncio logs the text of an exception that nobody looked at, and it may quote what the user said."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))

    async def break_off(*_: Any) -> None:
        bench.began.set()
        try:
            await wait_forever()
        finally:
            raise ValueError("what the user said")

    if how == "timeout":
        await bench.attempt(break_off).run(0.05, LONG)
    else:
        await bench.stopped(bench.attempt(break_off), StopReason(how))
    gc.collect()

    assert complaints == []
