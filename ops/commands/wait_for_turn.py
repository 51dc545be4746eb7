"""Waits for a turn to end by polling."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnstile.turn.status import TurnStatus

PAUSE_SECONDS = 0.5

Turn = TypeVar("Turn")


async def wait_until_ended(
    read: Callable[[float], Awaitable[Turn]], status: Callable[[Turn], TurnStatus], seconds: float
) -> Turn:
    """The turn, from `read`, once it has ended or the time is up. `read` may itself wait for as long as its argument says."""
    deadline = time.monotonic() + seconds
    while True:
        turn = await read(max(0.0, deadline - time.monotonic()))
        left = deadline - time.monotonic()
        if status(turn).is_terminal or left <= 0:
            return turn
        await asyncio.sleep(min(PAUSE_SECONDS, left))
