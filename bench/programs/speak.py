"""`ours`: a handler that speaks at a fixed pace, and says with each word when it has said it."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator

from turnstile import Context, Turn

PER_SECOND = 30
SECONDS = float(os.environ.get("BENCH_SPEAK_SECONDS", "10"))


async def respond(turn: Turn, ctx: Context) -> AsyncGenerator[str, None]:
    begun = time.monotonic()
    for number in range(int(PER_SECOND * SECONDS)):
        await asyncio.sleep(max(0.0, begun + number / PER_SECOND - time.monotonic()))
        yield f"{time.time_ns()} "
