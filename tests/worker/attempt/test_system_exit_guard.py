"""A handler that raises SystemExit fails its turn; the event loop, the worker and libraries are not affected."""

import asyncio
import gc
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.worker.attempt.attempts import LONG, THREADS, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt.outcome import Failed, Succeeded
from turnstile.worker.attempt.system_exit_guard import outlive_exits


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
async def test_an_exit_fails_the_turn_and_not_the_worker(bench: Bench, error: BaseException) -> None:
    async def leave(*_: Any) -> None:
        raise error

    def leave_in_thread(*_: Any) -> None:
        raise error

    for function in (leave, leave_in_thread):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert type(error).__name__ in f"{outcome.error_class} {outcome.error}"
        assert not outcome.may_heal


async def exit_process() -> None:
    sys.exit("from below")


async def gather(*_: Any) -> None:
    await asyncio.gather(exit_process(), wait_forever())


async def make_tasks(*_: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exit_process())
        group.create_task(wait_forever())


async def wait_for_later_task(*_: Any) -> None:
    await asyncio.create_task(gather())


def wait_in_thread(_: Turn, ctx: Context) -> None:
    ctx.wait_for(exit_process())


def wait_in_thread_of_its_own(_: Turn, ctx: Context) -> None:
    # Which has not the context that the handler's thread was given.
    with ThreadPoolExecutor(1) as own:
        own.submit(ctx.wait_for, exit_process()).result()


BELOW = [gather, make_tasks, wait_for_later_task, wait_in_thread, wait_in_thread_of_its_own]


@pytest.mark.parametrize("function", BELOW)
def test_an_exit_in_a_task_of_the_handler_fails_the_turn_and_not_the_worker(function: Callable[..., Any]) -> None:
    # On a loop of its own: what it is about ends the loop.
    loop = asyncio.new_event_loop()
    outlive_exits(loop)

    async def make_bench() -> Bench:
        return Bench(pool)

    with ThreadPoolExecutor(THREADS) as pool:
        bench = loop.run_until_complete(make_bench())
        try:
            outcome = loop.run_until_complete(bench.outcome_of(function))
        except SystemExit:
            pytest.fail("the loop has ended", pytrace=False)
        finally:
            # Or a thread that waits for a loop that has ended would keep the test.
            bench.context.cancel(CancelReason.SHUTDOWN)
    loop.close()

    assert isinstance(outcome, Failed)
    assert outcome.error_class in {"HandlerExitedError", "ExceptionGroup"}
    assert not outcome.may_heal


async def test_a_task_that_is_cancelled_before_it_begins_causes_no_warning(
    bench: Bench, recwarn: pytest.WarningsRecorder
) -> None:
    outlive_exits(asyncio.get_running_loop())

    gc.collect()
    recwarn.clear()

    async def change_its_mind(*_: Any) -> str:
        task = asyncio.create_task(wait_forever())
        task.cancel()
        await asyncio.wait({task})
        return "never mind"

    assert await bench.attempt(change_its_mind).run(LONG, LONG) == Succeeded("never mind")
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


async def test_a_library_may_inspect_the_tasks_of_a_handler(bench: Bench) -> None:
    # As anyio does, and with it many a client of a provider: which of its tasks have begun, and what they are called.
    outlive_exits(asyncio.get_running_loop())

    async def look(*_: Any) -> list[str]:
        task = asyncio.create_task(wait_forever())
        coroutine: Any = task.get_coro()
        before = inspect.getcoroutinestate(coroutine)
        await asyncio.get_running_loop().run_in_executor(None, int)
        after = inspect.getcoroutinestate(coroutine)
        task.cancel()
        return [before, after, coroutine.__qualname__]

    expected = [inspect.CORO_CREATED, inspect.CORO_SUSPENDED, "wait_forever"]
    assert await bench.attempt(look).run(LONG, LONG) == Succeeded(expected)


async def test_a_value_that_is_no_coroutine_makes_no_task(bench: Bench) -> None:
    unfit: Any = 5
    outlive_exits(asyncio.get_running_loop())

    async def make_task(*_: Any) -> None:
        await asyncio.create_task(unfit)

    for function in (make_task, lambda _, ctx: ctx.wait_for(unfit)):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert outcome.error_class == "TypeError"
