"""An answer that many callers share: nobody asks twice at a time, or again within a second.

For checks that cost a call to a server, and that a stranger may ask for at any rate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

HOLD_SECONDS = 1.0


class SharedAnswer(Generic[Answer]):
    """The answer of `ask`, at most HOLD_SECONDS old. For one event loop. An error is no answer: the next caller asks again."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asking = asyncio.Lock()
        self._answers: list[tuple[float, Answer]] = []
        """The last answer and its time; empty before the first."""

    async def __call__(self) -> Answer:
        async with self._asking:
            for at, answer in self._answers:
                if self._clock() < at + HOLD_SECONDS:
                    return answer
            answer = await self._ask()
            self._answers = [(self._clock(), answer)]
            return answer
