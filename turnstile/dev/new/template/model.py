"""A model that needs no key: it says back what it was told, word by word. README.md says how to use a real one."""

import asyncio
import re
from collections.abc import AsyncIterator

SECONDS_A_WORD = 0.05


async def stream_reply(messages: list[dict[str, str]]) -> AsyncIterator[str]:
    """`messages` is the conversation, oldest first. The last one is the user's."""
    asked = [message["content"] for message in messages if message["role"] == "user"]
    reply = f"You said: {asked[-1]}\n\nThis is answer {len(asked)} of this conversation. My words are in model.py."
    for piece in re.findall(r"\S+\s*", reply):
        await asyncio.sleep(SECONDS_A_WORD)
        yield piece
