"""A handler that returns at the moment of a stop: its reply counts at a shutdown, if the handler has not seen the stop."""

import asyncio
import threading
from typing import Any

import pytest

from tests.support.probes import wait_until
from tests.worker.attempt.attempts import LONG, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.attempt.outcome import Outcome, Stopped, StopReason, Succeeded

AT_THE_STOP = pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.SHUTDOWN, Succeeded("just in time")),
        (StopReason.CANCELED, Stopped(StopReason.CANCELED)),
        (StopReason.SUPERSEDED, Stopped(StopReason.SUPERSEDED)),
    ],
)


@AT_THE_STOP
async def test_a_reply_at_the_moment_of_the_stop_counts_at_a_shutdown_only(
    bench: Bench, reason: StopReason, outcome: Outcome
) -> None:
    async def finish(*_: Any) -> str:
        attempt.stop(reason)
        return "just in time"

    attempt = bench.attempt(finish)

    assert await attempt.run(LONG, LONG) == outcome


async def test_the_reply_of_a_thread_that_has_not_seen_the_stop_counts_at_a_shutdown(bench: Bench) -> None:
    loop = asyncio.get_running_loop()

    def finish(_: Turn, ctx: Context) -> str:
        assert not ctx.cancelled
        loop.call_soon_threadsafe(bench.began.set)
        # The test's own look, of which the context knows nothing.
        while not bench.context._cancelled:
            pass
        return "just in time"

    assert await bench.stopped(bench.attempt(finish), StopReason.SHUTDOWN) == Succeeded("just in time")


def stopped_as_its_thread_returns(bench: Bench, monkeypatch: pytest.MonkeyPatch, reply: Any) -> Attempt:
    """An attempt whose thread returns while the loop is busy stopping it: the loop has not received the result."""
    release, cancel = threading.Event(), bench.context.cancel
    loop = asyncio.get_running_loop()

    def answer(*_: Any) -> Any:
        loop.call_soon_threadsafe(bench.began.set)
        release.wait(30)
        return reply

    attempt = bench.attempt(answer)

    def cancel_and_hold_the_loop(reason: CancelReason) -> None:
        cancel(reason)
        release.set()
        wait_until(lambda: attempt._job is not None and attempt._job.done())

    monkeypatch.setattr(bench.context, "cancel", cancel_and_hold_the_loop)
    return attempt


async def test_a_reply_that_the_loop_has_not_received_yet_counts_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = stopped_as_its_thread_returns(bench, monkeypatch, "just in time")

    assert await bench.stopped(attempt, StopReason.SHUTDOWN) == Succeeded("just in time")


async def test_a_coroutine_that_a_thread_returns_as_it_is_stopped_is_cancelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = wait_forever()
    attempt = stopped_as_its_thread_returns(bench, monkeypatch, returned)

    assert await bench.stopped(attempt, StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)
    assert attempt.left_behind is None
    returned.close()
