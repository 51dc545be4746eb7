"""`ctx.wait_for`: an async call from a handler's thread."""

import asyncio
import threading
from typing import Any

import pytest

from tests.worker.attempt.attempts import LONG, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.worker.attempt.outcome import Failed, Succeeded, TimedOut


async def test_a_plain_function_waits_for_an_async_call(bench: Bench) -> None:
    async def ask() -> str:
        return threading.current_thread().name

    def answer(turn: Turn, ctx: Context) -> list[Any]:
        return [ctx.wait_for(ask()), threading.current_thread().name]

    outcome = await bench.attempt(answer).run(LONG, LONG)

    assert isinstance(outcome, Succeeded)
    assert outcome.reply[0] == threading.main_thread().name != outcome.reply[1]


@pytest.mark.parametrize("already", [False, True])
async def test_a_cancelled_turn_waits_for_nothing(bench: Bench, already: bool) -> None:
    began = threading.Event()

    def answer(turn: Turn, ctx: Context) -> str:
        began.set()
        while already and not ctx.cancelled:
            pass
        ctx.wait_for(wait_forever())
        return "never"

    running = asyncio.create_task(bench.attempt(answer).run(0.2, LONG))

    assert isinstance(await running, TimedOut)
    assert began.is_set()


async def test_an_async_function_may_not_wait_for_a_call(bench: Bench) -> None:
    async def answer(turn: Turn, ctx: Context) -> None:
        ctx.wait_for(wait_forever())

    outcome = await bench.attempt(answer).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "RuntimeError"
