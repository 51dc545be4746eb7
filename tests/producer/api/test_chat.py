"""Submit and follow in one request."""

import asyncio
import json
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.producer.api.calls import filled
from tests.producer.api.conversation import Conversation
from tests.producer.api.expectations import expect_problem
from tests.support.probes import until
from tests.support.wire_readers import AiSdkReader, OwnReader, frames

CHAT = "/v1/sessions/s/chat"


async def chat(talk: Conversation, reply: str, headers: dict[str, str] | None = None, **asked: str) -> httpx.Response:
    """One request, whose turn gets this reply."""
    asking = asyncio.create_task(talk.client.post(CHAT, json={"input": "hi"}, headers=headers or {}, params=asked))
    turn = await only_turn(talk)
    talk.work(turn)
    talk.script.reply(reply)
    return await asking


async def only_turn(talk: Conversation) -> UUID:
    found: list[Any] = []

    async def submitted() -> bool:
        answer = await talk.client.get("/v1/turns")
        found[:] = answer.json()["turns"]
        return bool(found)

    await until(submitted)
    return UUID(found[0]["id"])


async def test_the_response_is_the_stream_of_the_turn(talk: Conversation) -> None:
    answer = await chat(talk, "Hello!")

    turn = await only_turn(talk)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["location"] == f"/v1/turns/{turn}"
    assert answer.headers["x-turn-id"] == str(turn)
    reader = OwnReader()
    for frame in frames(answer.content):
        reader.take(frame)
    assert (reader.text, reader.ends) == ("Hello!", ["SUCCEEDED"])


async def test_it_speaks_other_wires(talk: Conversation) -> None:
    answer = await chat(talk, "Hello!", **{"as": "ai-sdk"})

    reader = AiSdkReader()
    for frame in frames(answer.content):
        reader.take(frame)
    assert reader.text == "Hello!"
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"


async def test_a_repeat_follows_the_same_turn(talk: Conversation) -> None:
    first = await chat(talk, "Hello!", {"Idempotency-Key": "k"})

    again = await talk.client.post(CHAT, json={"input": "hi"}, headers={"Idempotency-Key": "k"})

    assert again.headers["x-turn-id"] == first.headers["x-turn-id"]
    assert again.headers["idempotency-replayed"] == "true"
    *_, end = frames(again.content)
    assert json.loads(end.data)["output"] == "Hello!"


@pytest.mark.parametrize(
    ("body", "asked", "status", "kind"),
    [
        ({"input": ""}, {}, 422, "invalid-body"),
        ({"input": "hi", "queue": "none"}, {}, 422, "unknown-queue"),
        ({"input": "hi"}, {"as": "grpc"}, 422, "invalid-parameter"),
        ({"input": "hi"}, {"wait": "1"}, 422, "invalid-parameter"),
    ],
)
async def test_what_is_refused_is_a_problem(
    client: httpx.AsyncClient, body: Any, asked: dict[str, str], status: int, kind: str
) -> None:
    expect_problem(await client.post(CHAT, json=body, params=asked), status, kind)


async def test_an_unknown_profile_is_refused_before_anything_is_committed(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, json={"input": "hi"}, headers={"Accept": "text/event-stream; profile=grpc"})

    expect_problem(answer, 406, "not-acceptable")
    assert (await client.get("/v1/turns")).json()["turns"] == []


async def test_without_a_place_for_a_stream_nothing_is_committed(talk: Conversation) -> None:
    with filled(talk.served.app.state.backend.places):
        answer = await talk.client.post(CHAT, json={"input": "hi"})

    assert answer.status_code in (429, 503)
    assert (await talk.client.get("/v1/turns")).json()["turns"] == []


async def test_a_refused_submit_gives_its_place_back(client: httpx.AsyncClient, app: Any) -> None:
    expect_problem(await client.post(CHAT, json={"input": ""}), 422, "invalid-body")

    assert app.state.backend.places._taken == {}


@pytest.mark.parametrize("verb", ["read", "submit"])
async def test_a_token_of_a_page_needs_both_verbs(client: httpx.AsyncClient, verb: str) -> None:
    wanted = {"session_id": "s", "verbs": [verb]}
    token = (await client.post("/v1/tokens", json=wanted)).json()["token"]

    answer = await client.post(CHAT, json={"input": "hi"}, headers={"Authorization": f"Bearer {token}"})

    expect_problem(answer, 403, "forbidden")
    assert (await client.get("/v1/turns")).json()["turns"] == []


async def test_only_post_is_allowed(client: httpx.AsyncClient) -> None:
    expect_problem(await client.get(CHAT), 405, "method-not-allowed")
