"""A handler as a bad deploy brings it: it fails in the same line in each turn."""

from turnstile import Context, Turn, handler


@handler
async def act(turn: Turn, ctx: Context) -> str:
    settings: dict[str, str] = {}
    return settings["model"]
