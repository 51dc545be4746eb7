"""Both clients against a real API: what concerns many turns, or a session as a whole."""

from typing import Any
from uuid import UUID

from tests.client.either_client import both, call, connected, each, listed
from tests.producer.api.conversation import Conversation
from turnstile.client import Begin, End


@both
async def test_a_session_is_followed_from_turn_to_turn(kind: type[Any], talk: Conversation) -> None:
    async with connected(kind, talk.served.port) as client:
        session = client.session("s")
        first, second = [(await call(session.submit, text))["id"] for text in ("one", "two")]
        ends = []
        async for event in each(session.follow()):
            match event:
                case Begin(turn_id):
                    talk.script.reply(f"reply to {turn_id}")
                    talk.work(UUID(turn_id))
                case End():
                    ends.append((event.turn_id, event.output))
        nothing = await listed(session.follow())
    assert ends == [(first, f"reply to {first}"), (second, f"reply to {second}")]
    assert nothing == []
