"""Rows that another transaction has locked: usually for a moment, rarely for long."""

import asyncio
from collections.abc import Awaitable, Callable

MAX_LOOKS = 6
LOOK_AGAIN_SECONDS = 0.002
"""The first pause; each is twice the previous one. A tenth of a second in all: enough for a relay's or another worker's claim."""


async def stays_locked(look: Callable[[], Awaitable[bool]]) -> bool:
    """Whether the row was locked in every try. `look` returns True for a locked row; otherwise it has done its work."""
    for looks in range(MAX_LOOKS):
        if not await look():
            return False
        await asyncio.sleep(LOOK_AGAIN_SECONDS * 2**looks)
    return True
