"""The demo's handler: the bundled conversational program, with simulated latency and outages of a model provider."""

import asyncio
import os
import zlib
from pathlib import Path
from typing import Any

from turnstile import Context, Reject, Turn, handler
from turnstile.examples.eliza import respond as converse

OUTAGE_FILE = "DEMO_OUTAGE_FILE"
"""Environment variable with the path of a file. While the file exists, turns marked `outage` fail for good."""


@handler(timeout=60)
async def respond(turn: Turn, ctx: Context) -> Any:
    """Replies as `turnstile.examples.eliza` does, after a delay like that of a model."""
    part = turn.metadata.get("demo")
    outage = os.environ.get(OUTAGE_FILE)
    if part == "outage" and outage and await asyncio.to_thread(Path(outage).exists):
        raise Reject("the provider refuses this question until somebody repairs it")
    if part == "endless":
        await asyncio.sleep(3600)
    # Between 0.15 and 0.6 s, the same for each attempt of a turn.
    await asyncio.sleep(0.15 + zlib.crc32(turn.id.bytes) % 450 / 1000)
    return await converse(turn, ctx)
