"""Both clients against a real API over sockets: each call, and what becomes of a turn when connections break."""

import asyncio
import random
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from tests.client.either_client import both, call, connected, each, listed
from tests.producer.api.conversation import Conversation
from tests.producer.api.network_faults import Cable
from tests.support.probes import until
from turnstile.client import (
    AsyncClient,
    Begin,
    ConflictError,
    Custom,
    Delta,
    End,
    InvalidRequestError,
    NotFoundError,
    Reset,
    UnauthorizedError,
)

WORDS = [f"word{n} " for n in range(60)]


@both
async def test_a_turn_sent_through_connections_that_break_is_one_turn_and_its_text_is_the_reply(
    kind: type[Any], talk: Conversation, cable: Cable
) -> None:
    drawn = random.Random(0)
    cable.budgets = (drawn.randint(500, 1800) for _ in count())
    text, customs, ends = "", [], []
    async with connected(kind, cable.port) as client:
        async for event in each(client.session("s").send("hi")):
            match event:
                case Begin(turn_id):
                    talk.work(UUID(turn_id))
                    for n, word in enumerate(WORDS):
                        talk.script.emit(word, {"n": n})
                    talk.script.reply("".join(WORDS))
                case Delta(more):
                    text += more
                case Reset(whole):
                    text = whole
                case Custom(data):
                    customs.append(data)
                case End():
                    ends.append(event)
    async with connected(kind, talk.served.port) as client:
        [turn] = await listed(client.turns())
    assert cable.breaks > 3
    assert (turn["id"], turn["status"]) == (ends[0].turn_id, "SUCCEEDED")
    assert [end.output for end in ends] == [text] == ["".join(WORDS)]
    assert customs == [{"n": n} for n in range(len(WORDS))]


@both
async def test_a_submit_whose_answer_is_lost_is_one_turn(kind: type[Any], talk: Conversation, cable: Cable) -> None:
    cable.lose_after = b"POST /v1/sessions/s/turns"
    async with connected(kind, cable.port) as client:
        submitted = await call(client.session("s").submit, "hi")
        turns = await listed(client.session("s").turns())
    assert [turn["id"] for turn in turns] == [submitted["id"]]
    assert submitted["replayed"] is True


@both
async def test_a_turn_is_waited_for_and_read_with_its_session(kind: type[Any], talk: Conversation) -> None:
    async with connected(kind, talk.served.port) as client:
        session = client.session("s")
        submitted = await call(session.submit, "hi", metadata={"a": 1}, max_attempts=2)
        soon = await call(client.wait, submitted["id"], 0.05)
        waiting = asyncio.create_task(call(client.wait, submitted["id"], 30))
        talk.work(UUID(submitted["id"]))
        talk.script.reply("hello")
        turn = await waiting
        messages = await listed(session.messages())
        again = await listed(client.follow(submitted["id"]))
        last = await listed(client.follow(submitted["id"], after=again[-1].id))
    assert (submitted["status"], submitted["replayed"], soon["status"]) == ("PENDING", False, "PENDING")
    assert (turn["input"], turn["output"], turn["metadata"], turn["max_attempts"]) == ("hi", "hello", {"a": 1}, 2)
    assert [(one["role"], one["content"]) for one in messages] == [("assistant", "hello"), ("user", "hi")]
    assert [type(one) for one in again[-2:]] == [Reset, End]
    assert [(one.status, one.output) for one in last] == [("SUCCEEDED", "hello")]


@both
async def test_turns_are_cancelled_listed_and_erased(kind: type[Any], talk: Conversation) -> None:
    async with connected(kind, talk.served.port) as client:
        session = client.session("s")
        first, second = [await call(session.submit, text) for text in ("one", "two")]
        canceled = await call(client.cancel, first["id"])
        rest = await call(session.cancel)
        shown = await listed(client.turns(status="CANCELED"))
        token = await call(session.make_token, ["read"])
        erasing = await call(session.erase)
        async with connected(kind, talk.served.port, token["token"]) as page:
            with pytest.raises(NotFoundError):
                await listed(page.session("other").messages())
    assert (canceled["cancel_requested"], rest["canceled"], erasing) == (True, 1, True)
    assert [turn["id"] for turn in shown] == [second["id"], first["id"]]


@both
async def test_a_refusal_of_the_api_is_raised_with_what_it_says(kind: type[Any], talk: Conversation) -> None:
    async with connected(kind, talk.served.port) as client, connected(kind, talk.served.port, "no-such-key") as other:
        session = client.session("s")
        first = await call(session.submit, "hi")
        with pytest.raises(ConflictError) as busy:
            await call(session.submit, "hi", on_busy="reject")
        with pytest.raises(InvalidRequestError) as unfit:
            await call(session.submit, "hi", max_attempts=0)
        with pytest.raises(UnauthorizedError):
            await call(other.read, first["id"])
        with pytest.raises(NotFoundError):
            await listed(client.follow("00000000-0000-7000-8000-000000000000"))
        nothing = await call(client.session("empty").erase)
    assert (busy.value.type, busy.value.turn_id) == ("/problems/session-busy", first["id"])
    assert unfit.value.document["errors"][0]["pointer"] == "/max_attempts"
    assert nothing is False


async def test_a_reader_that_stops_leaves_no_stream_open(talk: Conversation) -> None:
    async with connected(AsyncClient, talk.served.port) as client:
        stream = client.session("s").send("hi")
        await anext(stream)
        assert talk.listeners == 1
        await stream.aclose()
        await until(lambda: talk.listeners == 0)
