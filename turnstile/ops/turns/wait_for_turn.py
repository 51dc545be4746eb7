"""Waits for a turn to end by polling, and says how it ended."""

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


def describe_end(turn_id: object, status: TurnStatus, error_class: str | None, error: str | None) -> str:
    """Such as `turn 7 is FAILED: ValueError: no` or, if it has not ended, `turn 7 is still PENDING: turnstile why 7`.

    `error` is None if the API has given only the class.
    """
    if not status.is_terminal:
        return f"turn {turn_id} is still {status}: turnstile why {turn_id}"
    reasons = (error_class, error) if status is TurnStatus.FAILED and error_class else ()
    return ": ".join((f"turn {turn_id} is {status}", *filter(None, reasons)))
