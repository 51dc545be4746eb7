"""The handler: it answers a turn, which is a user's message in a conversation."""

from collections.abc import AsyncIterator

from model import stream_reply
from turnstile import Context, Turn, handler


@handler(timeout=120, max_attempts=5)
async def respond(turn: Turn, ctx: Context) -> AsyncIterator[str]:
    """Readers see each piece as it is yielded. All pieces together are the reply."""
    messages = [{"role": said.role, "content": str(said.content)} for said in await ctx.history(limit=20)]
    async for piece in stream_reply(messages):
        yield piece
