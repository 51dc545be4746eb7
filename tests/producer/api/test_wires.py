"""The same events in the form that the client asks for, over HTTP."""

import json
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.producer.api.conversation import Conversation
from tests.producer.api.expectations import expect_problem
from tests.support.probes import until
from tests.support.wire_readers import AgUiReader, AiSdkReader, Frame, OwnReader, frames
from turnstile.errors import DatabaseUnavailableError
from turnstile.handlers.exceptions import Retry
from turnstile.queries.turns import read_turn
from turnstile.streaming.wires.wire import Wire

READERS = {Wire.TURNSTILE: OwnReader, Wire.AI_SDK: AiSdkReader, Wire.AG_UI: AgUiReader}
every_wire = pytest.mark.parametrize("wire", Wire)


async def read(client: httpx.AsyncClient, turn: UUID, **how: str | None) -> list[Frame]:
    """All that one connection is sent."""
    asked = {name: value for name, value in how.items() if value is not None and name != "last"}
    headers = {"Last-Event-ID": last} if (last := how.get("last")) else {}
    answer = await client.get(f"/v1/turns/{turn}/events", params=asked, headers=headers)
    assert answer.status_code == 200
    return list(frames(answer.content))


async def answered(talk: Conversation, *emitted: object, reply: object) -> UUID:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit(*emitted)
    talk.script.reply(reply)
    assert (await talk.client.get(f"/v1/turns/{turn}?wait=60")).json()["status"] == "SUCCEEDED"
    return turn


@every_wire
async def test_a_client_reads_the_reply_in_its_wire(talk: Conversation, wire: Wire) -> None:
    turn = await answered(talk, "Hel", {"sources": [1]}, "lo!", reply="Hello!")

    reader = READERS[wire]()
    reader.connect()
    for frame in await read(talk.client, turn, **{"as": wire}):
        reader.take(frame)

    assert reader.has_ended
    assert reader.text == "Hello!"


@every_wire
async def test_a_client_that_resumes_has_the_reply_and_no_more(talk: Conversation, wire: Wire) -> None:
    turn = await answered(talk, "Hel", {"sources": [1]}, "lo!", reply="Hello!")
    sent = await read(talk.client, turn, **{"as": wire})
    middle = next(place for place, frame in enumerate(sent) if "Hel" in frame.data)
    reader = READERS[wire]()
    reader.connect()
    for frame in sent[: middle + 1]:
        reader.take(frame)

    reader.connect()
    again = await read(talk.client, turn, last=sent[middle].id, **{"as": wire})
    for frame in again:
        reader.take(frame)

    assert reader.text == "Hello!"
    assert [frame.id for frame in again if frame.id] == [frame.id for frame in sent[middle + 1 :] if frame.id]


async def test_a_new_attempt_replaces_the_text_in_a_conversation_of_ag_ui(talk: Conversation) -> None:
    await answered(talk, reply="Before")
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Wrong")
    talk.script.fail(Retry(after=0))
    talk.script.emit("Right")
    talk.script.reply("Right")
    reader = AgUiReader()
    reader.connect()

    async def read_on() -> bool:
        talk.work(turn)
        return (await talk.client.get(f"/v1/turns/{turn}?wait=1")).json()["status"] == "SUCCEEDED"

    await until(read_on)
    for frame in await read(talk.client, turn, **{"as": "ag-ui"}):
        reader.take(frame)

    assert [message["content"] for message in reader.messages] == ["hi", "Before", "hi", "Right"]


async def test_a_conversation_that_cannot_be_read_for_a_moment_is_read_again(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await answered(talk, "Hello!", reply="Hello!")
    tries: list[None] = []

    async def fail_once(*whose: Any) -> Any:
        tries.append(None)
        if len(tries) == 1:
            raise DatabaseUnavailableError("a moment")
        return await read_turn(*whose)

    monkeypatch.setattr("turnstile.producer.routes.told_turn.AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("turnstile.producer.routes.told_turn.read_turn", fail_once)
    reader = AgUiReader()
    for frame in await read(talk.client, turn, **{"as": "ag-ui"}):
        reader.take(frame)

    assert len(tries) == 2
    assert [message["content"] for message in reader.messages] == ["hi", "Hello!"]


async def test_the_wire_may_be_a_profile_of_what_is_accepted(talk: Conversation) -> None:
    turn = await answered(talk, reply="Hello!")

    async def asked(accept: str, **parameters: str) -> httpx.Response:
        return await talk.client.get(f"/v1/turns/{turn}/events", params=parameters, headers={"Accept": accept})

    assert "[DONE]" in (await asked("text/event-stream; profile=ai-sdk")).text
    assert "[DONE]" in (await asked('text/event-stream;q=1; profile="ai-sdk", */*')).text
    assert "RUN_FINISHED" in (await asked("text/event-stream; profile=ai-sdk", **{"as": "ag-ui"})).text
    assert "event: end" in (await asked("text/event-stream")).text
    assert "event: end" in (await asked("application/json")).text
    expect_problem(await asked("text/event-stream; profile=grpc"), 406, "not-acceptable")
    expect_problem(await asked("*/*", **{"as": "grpc"}), 422, "invalid-parameter")


async def test_the_ai_sdk_finds_its_header(talk: Conversation) -> None:
    turn = await answered(talk, reply="Hello!")

    answer = await talk.client.get(f"/v1/turns/{turn}/events?as=ai-sdk")

    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert json.loads(next(frames(answer.content)).data)["messageId"] == str(turn)


@every_wire
async def test_nothing_follows_the_end(talk: Conversation, wire: Wire) -> None:
    turn = await answered(talk, "Hello!", reply="Hello!")
    sent = await read(talk.client, turn, **{"as": wire})

    answer = await talk.client.get(
        f"/v1/turns/{turn}/events", params={"as": wire}, headers={"Last-Event-ID": sent[-1].id or ""}
    )

    assert answer.status_code == 204
