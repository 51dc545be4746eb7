"""A handler that raises SystemExit fails its turn; the event loop goes on."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.probes import turn_loop
from tests.worker.attempt.attempts import THREADS, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt.outcome import Failed, Outcome, Succeeded
from turnstile.worker.lifecycle.event_loop import WorkerLoop

Function = Callable[[Any, Any], Any]


@pytest.fixture
def run() -> Iterator[Callable[[Function], Outcome]]:
    """Runs a handler on a worker's loop."""
    loop = WorkerLoop()

    def outcome_of(function: Function) -> Outcome:
        with ThreadPoolExecutor(THREADS) as pool:
            bench = loop.run_until_complete(make_bench(pool))
            try:
                return loop.run_until_complete(bench.outcome_of(function))
            finally:
                # Otherwise a thread that waits for a loop that has ended would block the test.
                bench.context.cancel(CancelReason.SHUTDOWN)

    yield outcome_of
    loop.close()


async def make_bench(pool: ThreadPoolExecutor) -> Bench:
    return Bench(pool)


async def exit_process() -> None:
    sys.exit("from below")


async def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


async def gather(*_: Any) -> None:
    await asyncio.gather(exit_process(), wait_forever())


async def make_tasks(*_: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exit_process())
        group.create_task(wait_forever())


def exit_in_thread(*_: Any) -> None:
    sys.exit("from a thread")


def wait_in_thread_of_its_own(_: Turn, ctx: Context) -> None:
    with ThreadPoolExecutor(1) as own:
        own.submit(ctx.wait_for, exit_process()).result()


@pytest.mark.parametrize("function", [interrupt, gather, make_tasks, exit_in_thread, wait_in_thread_of_its_own])
def test_an_exit_fails_the_turn_and_not_the_worker(
    run: Callable[[Function], Outcome], function: Callable[..., Any]
) -> None:
    outcome = run(function)

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "HandlerExitedError"
    assert not outcome.may_heal


def test_a_callback_that_exits_ends_no_turn(run: Callable[[Function], Outcome]) -> None:
    async def leave_a_callback(*_: Any) -> str:
        asyncio.get_running_loop().call_soon(sys.exit, 1)
        await turn_loop()
        return "goes on"

    assert run(leave_a_callback) == Succeeded("goes on")
