"""Tells a server that does not respond from a process that has no time to read what has arrived."""

import asyncio
from collections.abc import Callable

TURNS = 50
"""How many turns of the event loop a driver may take from a response that has arrived, or a new connection, to its caller."""
LATE_SECONDS = 0.25
"""How long these turns take together while the loop has time."""


async def is_answered(answered: Callable[[], bool]) -> bool:
    """Whether `answered` is true, or becomes it soon.

    While a flood keeps the event loop busy, one of its turns takes long: so this waits for turns, and not for a time.
    """
    for _ in range(TURNS):
        if answered():
            return True
        await asyncio.sleep(LATE_SECONDS / TURNS)
    return answered()
