"""An attempt that is stopped: the handler is cancelled and sees the reason, and its later result does not count."""

import asyncio
import concurrent.futures
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker.attempt.attempts import LONG, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt import attempt as attempt_module
from turnstile.worker.attempt.outcome import Stopped, StopReason, TimedOut


@pytest.mark.parametrize("reason", StopReason)
async def test_a_handler_that_is_stopped_is_cancelled(bench: Bench, reason: StopReason) -> None:
    async def dawdle(*_: Any) -> None:
        bench.began.set()
        await wait_forever()

    assert bench.context.cancel_reason is None
    assert await bench.stopped(bench.attempt(dawdle), reason) == Stopped(reason)
    assert bench.context.cancelled
    assert bench.context.cancel_reason is reason.cancel_reason


async def test_a_handler_sees_the_first_reason_from_the_row(bench: Bench) -> None:
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


async def test_an_attempt_that_is_stopped_before_it_runs_never_calls_the_handler(bench: Bench) -> None:
    called: list[object] = []
    attempt = bench.attempt(lambda *_: called.append(1))
    attempt.stop(StopReason.SUPERSEDED)
    attempt.stop(StopReason.CANCELED)

    assert await attempt.run(LONG, LONG) == Stopped(StopReason.SUPERSEDED)
    assert called == []


async def test_the_result_of_a_cancelled_handler_is_not_a_reply(bench: Bench) -> None:
    reason = StopReason.SHUTDOWN

    async def break_off(*_: Any) -> str:
        bench.began.set()
        try:
            await wait_forever()
        except asyncio.CancelledError:
            return "as far as I had c"
        return "never"

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


@pytest.mark.parametrize("look", [lambda ctx: ctx.cancelled, lambda ctx: ctx.cancel_reason], ids=["whether", "why"])
async def test_the_result_of_a_thread_that_has_seen_its_stop_is_not_a_reply(
    bench: Bench, look: Callable[[Context], object]
) -> None:
    loop = asyncio.get_running_loop()

    def break_off(_: Turn, ctx: Context) -> str:
        loop.call_soon_threadsafe(bench.began.set)
        while not look(ctx):
            pass
        return "as far as I had c"

    assert await bench.stopped(bench.attempt(break_off), StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)


async def test_the_result_of_a_thread_whose_call_was_cancelled_is_not_a_reply(bench: Bench) -> None:
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


async def test_a_shutdown_shortens_the_grace_of_an_attempt_that_is_being_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "HAND_BACK_GRACE_SECONDS", 0.05)
    release = asyncio.Event()
    attempt = bench.attempt(bench.deaf_until(release))
    running = asyncio.create_task(attempt.run(LONG, 10 * LONG))
    await bench.began.wait()
    attempt.stop(StopReason.CANCELED)
    attempt.stop(StopReason.SHUTDOWN)

    assert await asyncio.wait_for(running, LONG) == Stopped(StopReason.CANCELED)
    release.set()


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="the forgotten exception shows at once with CPython only")
@pytest.mark.parametrize("how", ["timeout", StopReason.CANCELED])
async def test_an_error_raised_after_the_stop_changes_no_outcome_and_asyncio_does_not_log_it(
    bench: Bench, how: str
) -> None:
    """asyncio logs the text of an exception that was never retrieved, and it may quote the user."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))

    async def break_off(*_: Any) -> None:
        bench.began.set()
        try:
            await wait_forever()
        finally:
            raise ValueError("what the user said")

    if how == "timeout":
        assert await bench.attempt(break_off).run(0.05, LONG) == TimedOut(0.05)
    else:
        assert await bench.stopped(bench.attempt(break_off), StopReason(how)) == Stopped(StopReason(how))
    gc.collect()

    assert complaints == []
