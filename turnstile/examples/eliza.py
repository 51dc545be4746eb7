"""The bundled handler: answers a turn offline, using only the session's own history.

turnstile worker --handler turnstile.examples.eliza:respond
"""

import json

from turnstile import Context, Turn, handler
from turnstile.examples.eliza_engine import Said, reply


@handler(timeout=30)
async def respond(turn: Turn, ctx: Context) -> str:
    # An earlier attempt that was lost may have stored its answer. The key contains the turn's place in the session, because a
    # redrive moves the turn, and the answer may then differ. If Redis has lost the answer, it is computed again.
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
    """A turn's input may be any JSON: a string, an object with a `text` member, or another value that is quoted as JSON."""
    if isinstance(content, dict):
        content = content.get("text", content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
