"""The timeout of an attempt: the handler is cancelled, and left behind if it ignores that."""

import asyncio
import threading
from typing import Any

from tests.support.probes import until
from tests.worker.attempt.attempts import LONG, THREADS, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.worker.attempt.outcome import TimedOut


async def test_a_handler_that_takes_too_long_is_cancelled(bench: Bench) -> None:
    seen: list[str] = []

    async def dawdle(_: Turn, ctx: Context) -> None:
        try:
            await wait_forever()
        except asyncio.CancelledError:
            seen.append(f"cancelled {ctx.cancelled}: {ctx.cancel_reason}")
            raise

    attempt = bench.attempt(dawdle)
    assert await attempt.run(0.05, LONG) == TimedOut(0.05)
    assert attempt.left_behind is None
    assert seen == ["cancelled True: timeout"]


async def test_a_reply_after_the_timeout_does_not_count(bench: Bench) -> None:
    async def too_late(*_: Any) -> str:
        try:
            await wait_forever()
        except asyncio.CancelledError:
            return "too late"
        return "never"

    assert await bench.attempt(too_late).run(0.05, LONG) == TimedOut(0.05)


async def test_a_handler_that_ignores_its_cancellation_is_left_behind(bench: Bench) -> None:
    release = asyncio.Event()
    attempt = bench.attempt(bench.deaf_until(release))

    assert await attempt.run(0.05, 0.05) == TimedOut(0.05)
    assert attempt.left_behind is not None
    assert not attempt.left_behind.done()
    release.set()
    await attempt.left_behind


async def test_a_function_in_a_thread_that_ignores_its_cancellation_is_left_behind(bench: Bench) -> None:
    release = threading.Event()
    attempt = bench.attempt(lambda *_: release.wait(30))

    assert await attempt.run(0.05, 0.05) == TimedOut(0.05)
    assert attempt.left_behind is not None
    assert not attempt.left_behind.done()
    release.set()
    await asyncio.wait({attempt.left_behind}, timeout=30)
    assert attempt.left_behind.done()


async def test_a_function_that_waits_for_a_thread_is_not_called_after_its_timeout(bench: Bench) -> None:
    release, begun, called = threading.Event(), [], []

    def occupy(*_: Any) -> None:
        begun.append(1)
        release.wait(30)

    busy = [asyncio.create_task(bench.attempt(occupy).run(LONG, LONG)) for _ in range(THREADS)]
    await until(lambda: len(begun) == THREADS)
    waiting = bench.attempt(lambda *_: called.append(1))

    assert await waiting.run(0.05, LONG) == TimedOut(0.05)

    assert waiting.left_behind is None
    release.set()
    await asyncio.wait(busy, timeout=30)
    assert called == []
