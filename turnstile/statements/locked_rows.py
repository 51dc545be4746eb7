"""Rows that a statement skips because somebody has them: mostly for a moment, now and then for as long as he likes."""

import asyncio
from collections.abc import Awaitable, Callable

MAX_LOOKS = 6
LOOK_AGAIN_SECONDS = 0.002
"""A relay, or another worker's claim, has the row for a moment only; a tenth of a second is enough for those."""


async def stays_held(look: Callable[[], Awaitable[bool]]) -> bool:
    """Whether `look` meets the row in somebody's hand each time. What it does where it does not, is done once."""
    for looks in range(MAX_LOOKS):
        if not await look():
            return False
        await asyncio.sleep(LOOK_AGAIN_SECONDS * 2**looks)
    return True
