"""`ours`: the handler that `turnstile worker` is given."""

import asyncio

from bench.programs.terms import REPLY, SLEEP_SECONDS, begin
from turnstile import Context, Turn


async def respond(turn: Turn, ctx: Context) -> str:
    begin(turn.input["number"])
    if SLEEP_SECONDS:
        await asyncio.sleep(SLEEP_SECONDS)
    return REPLY
