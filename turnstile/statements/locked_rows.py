"""Rows that another transaction has locked: mostly for a moment, now and then for as long as it likes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import LiteralString

BOUND_WAIT: LiteralString = "SELECT set_config('lock_timeout', %(wait)s, true)"
"""Bounds the wait for locks of the same transaction or pipeline. `wait` has its unit: `100ms`."""

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
