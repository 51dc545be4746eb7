"""The handler without a service: it uses only the history of its context, so a conversation stands in for all of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from agent import respond


class Conversation:
    def __init__(self, *said: tuple[str, str]) -> None:
        self.messages = [SimpleNamespace(role=role, content=content) for role, content in said]

    async def history(self, limit: int) -> list[SimpleNamespace]:
        return self.messages[-limit:]


def pieces_of_reply(conversation: Any) -> list[str]:
    async def collect() -> list[str]:
        return [piece async for piece in respond(None, conversation)]

    return asyncio.run(collect())


def test_the_reply_comes_in_pieces() -> None:
    pieces = pieces_of_reply(Conversation(("user", "Good morning")))

    assert len(pieces) > 3
    assert "".join(pieces).startswith("You said: Good morning")


def test_the_handler_knows_the_conversation() -> None:
    conversation = Conversation(("user", "Good morning"), ("assistant", "Hello"), ("user", "How are you?"))

    assert "answer 2" in "".join(pieces_of_reply(conversation))
