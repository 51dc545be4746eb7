"""The bundled handler: answers a turn offline, from the session's own history and nothing else.

turnstile worker --handler turnstile.examples.eliza:respond
"""

import json

from turnstile import Context, Turn, handler
from turnstile.examples.eliza_engine import Said, reply


@handler(timeout=30)
async def respond(turn: Turn, ctx: Context) -> str:
    # What an attempt that was lost on the way had come to already. A redrive moves the turn to another place in its session,
    # where the answer may be another; and should Redis have forgotten it, it is thought of once more.
    thought = f"{turn.id} at {turn.seq}"
    remembered = await ctx.memory.get(thought, kind="result")
    if remembered is not None:
        return str(remembered.value)
    history = await ctx.history(limit=100)
    # The last message is this turn's own input.
    earlier = [Said(message.role, plain_text(message.content)) for message in history[:-1]]
    answer = reply(earlier, plain_text(turn.input))
    await ctx.memory.set(thought, answer, kind="result", metadata={"attempt": ctx.attempt})
    return answer


def plain_text(content: object) -> str:
    """A turn's input is any JSON: a string, an object that carries one as `text`, or something we can only quote."""
    if isinstance(content, dict):
        content = content.get("text", content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
