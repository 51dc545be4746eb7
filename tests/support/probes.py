"""Waiting on conditions. The only place in the tests that sleeps."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def until(
    condition: Callable[[], Value | Awaitable[Value]], *, within: float = 30.0, every: float = 0.02
) -> Value:
    """Waits until `condition` is truthy and returns its value. `within` is a bound that only a hang would break."""
    deadline = time.monotonic() + within
    while True:
        found = condition()
        value: Value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {inspect.getsource(condition).strip()}")
        await asyncio.sleep(every)


def wait_until(condition: Callable[[], object], *, within: float = 30.0, every: float = 0.05) -> None:
    """The same for a synchronous fixture. `condition` may itself raise when what it waits for can no longer come."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within:g} s: {inspect.getsource(condition).strip()}"
        time.sleep(every)


async def let_the_loop_turn(times: int) -> None:
    """Lets everybody else come so many steps further: for what must hold at whichever step it strikes."""
    for _ in range(times):
        await asyncio.sleep(0)


def stand_still(seconds: float) -> None:
    """Stops the thread, and the loop with it, as a handler that computes does."""
    time.sleep(seconds)


async def turn_loop(times: int = 5) -> None:
    """Lets everything that is ready run."""
    loop = asyncio.get_running_loop()
    for _ in range(times):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned
