"""Both clients against a real API: what concerns many turns, or a session as a whole."""

from typing import Any
from uuid import UUID

from tests.client.either_client import both, call, connected, each, listed
from tests.producer.api.conversation import Conversation
from tests.producer.api.network_faults import Cable
from turnstile.client import Begin, End, InvalidRequestError


@both
async def test_a_batch_has_a_result_for_each_turn_and_a_lost_answer_makes_no_turn_twice(
    kind: type[Any], talk: Conversation, cable: Cable
) -> None:
    cable.lose_after = b"POST /v1/turns/batch"
    turns = [
        {"session_id": "a", "input": "one"},
        {"session_id": "a", "input": "two", "max_attempts": 0},
        {"session_id": "b", "input": "three"},
    ]
    async with connected(kind, cable.port) as client:
        first, refused, last = await call(client.submit_batch, turns)
        accepted = await listed(client.turns())
        sessions = await listed(client.sessions())
    assert isinstance(refused, InvalidRequestError)
    # Turns of several sessions that came at the same time have no order.
    assert sorted(turn["id"] for turn in accepted) == sorted([first["id"], last["id"]])
    assert (first["replayed"], last["replayed"]) == (True, True)
    assert sorted(session["id"] for session in sessions) == ["a", "b"]


@both
async def test_a_page_that_is_reloaded_goes_on_where_the_reply_is(kind: type[Any], talk: Conversation) -> None:
    async with connected(kind, talk.served.port) as client:
        session = client.session("s")
        submitted = await call(session.submit, "hi")
        talk.work(UUID(submitted["id"]))
        talk.script.emit("Hel")
        events = each(client.follow(submitted["id"]))
        async for event in events:
            if getattr(event, "text", "") == "Hel":
                break
        shown = await call(session.read, ["open", "partial"])
        talk.script.emit("lo")
        talk.script.reply("Hello")
        partial = shown["partial"]
        rest = await listed(client.follow(partial["turn_id"], after=partial["last_event_id"]))
    assert [turn["input"] for turn in shown["open"]] == ["hi"]
    assert shown["failed"] is None
    assert partial["text"] + "".join(getattr(event, "text", "") for event in rest) == "Hello"


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
