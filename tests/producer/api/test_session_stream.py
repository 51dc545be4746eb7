"""The events of a session, from turn to turn, over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import httpx
import pytest

from tests.producer.api.calls import filled
from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.expectations import expect_problem
from tests.support.probes import until
from tests.support.wire_readers import AgUiReader, AiSdkReader, Frame, OwnReader, frames
from turnstile.config.settings import Settings

STREAM = "/v1/sessions/s/stream"
NEVER = 900.0


@dataclass
class Heard:
    """What was received on one or more connections."""

    frames: list[Frame] = field(default_factory=list)
    status: int = 0

    @property
    def replies(self) -> list[str | None]:
        """Of the turns that have ended, in the order in which they were told. None: canceled."""
        return [json.loads(frame.data).get("output") for frame in self.frames if frame.name == "end"]

    @property
    def last_id(self) -> str:
        return [frame.id for frame in self.frames if frame.id][-1]

    def text(self, turn: UUID) -> str:
        """What Turnstile's own reader has of this turn."""
        reader = OwnReader()
        for frame in self.frames:
            if frame.id and frame.id.startswith(f"{turn}:"):
                reader.take(frame)
        return reader.text


async def read(client: httpx.AsyncClient, heard: Heard, last: str = "", **asked: str) -> None:
    """One connection, to its end."""
    headers = {"Last-Event-ID": last} if last else {}
    async with client.stream("GET", STREAM, params=asked, headers=headers) as answer:
        heard.status = answer.status_code
        received = b""
        async for some in answer.aiter_bytes():
            received += some
            whole = received.rfind(b"\n\n") + 2
            heard.frames += frames(received[:whole])
            received = received[whole:]


@asynccontextmanager
async def following(talk: Conversation, last: str = "", **asked: str) -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(read(talk.client, heard, last, **asked))
    await until(lambda: heard.status)
    try:
        yield heard
    finally:
        task.cancel()


async def answer(talk: Conversation, turn: UUID, *emitted: str, reply: str) -> None:
    talk.work(turn)
    talk.script.emit(*emitted)
    talk.script.reply(reply)
    assert (await talk.client.get(f"/v1/turns/{turn}?wait=60")).json()["status"] == "SUCCEEDED"


async def test_where_nothing_is_open_there_is_no_stream(talk: Conversation) -> None:
    assert (await talk.client.get(STREAM)).status_code == 204

    await answer(talk, await talk.submit(), reply="Hello!")

    assert (await talk.client.get(STREAM)).status_code == 204


async def test_open_turns_are_told_in_the_order_of_the_session(talk: Conversation) -> None:
    turns = [await talk.submit() for _ in range(2)]
    heard = Heard()
    reading = asyncio.create_task(read(talk.client, heard))
    for turn, reply in zip(turns, ("One", "Two"), strict=True):
        await answer(talk, turn, reply, reply=reply)
    await reading

    assert heard.replies == ["One", "Two"]
    begun = [json.loads(frame.data)["turn_id"] for frame in heard.frames if frame.name == "metadata"]
    assert begun == [str(turn) for turn in turns]
    assert [heard.text(turn) for turn in turns] == ["One", "Two"]


@pytest.fixture
async def patient(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Conversation]:
    """A server whose waiting streams look again only when they hear something."""
    monkeypatch.setattr("turnstile.producer.watch.looks.TICK_SECONDS", NEVER)
    for name in ("session_watch.LONGEST_PAUSE_SECONDS", "session_watch.QUIET_PAUSE_SECONDS"):
        monkeypatch.setattr(f"turnstile.producer.watch.{name}", NEVER)
    async with conversing(settings.model_copy(update={"stream_heartbeat_seconds": NEVER})) as conversation:
        yield conversation


def counted_looks(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    sessions = talk.served.app.state.backend.sessions
    looks, look = [], sessions.look

    def note(wanted: object) -> object:
        looks.append(wanted)
        return look(wanted)

    monkeypatch.setattr(sessions, "look", note)
    return lambda: len(looks)


async def test_who_waits_hears_of_a_turn_that_another_submits_without_polling(
    patient: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = counted_looks(patient, monkeypatch)
    # A stream waits with a status line, and with nothing to say.
    heard = Heard()
    reading = asyncio.create_task(read(patient.client, heard, wait="true"))
    await until(lambda: patient.listeners)

    for reply in ("One", "Two"):
        await answer(patient, await patient.submit(), reply, reply=reply)
        await until(lambda reply=reply: heard.replies[-1:] == [reply])

    assert heard.replies == ["One", "Two"]
    # For each turn: the hint, its end, and perhaps the hint that came meanwhile; at the start the subscription is one, too.
    assert looks() <= 10
    reading.cancel()


async def test_a_client_that_resumes_is_told_what_has_ended_meanwhile(talk: Conversation) -> None:
    first, second, third = [await talk.submit() for _ in range(3)]
    async with following(talk) as heard:
        talk.work(first)
        talk.script.emit("On")
        await until(lambda: heard.text(first) == "On")
        await talk.client.post(f"/v1/turns/{third}/cancel")
    talk.script.emit("e")
    talk.script.reply("One")
    await until(lambda: ended(talk, first))
    await answer(talk, second, "Two", reply="Two")
    fourth = await talk.submit()

    resumed = Heard()
    reading = asyncio.create_task(read(talk.client, resumed, heard.last_id))
    await answer(talk, fourth, "Four", reply="Four")
    await reading

    whole = Heard([*heard.frames, *resumed.frames])
    assert whole.replies == ["One", "Two", None, "Four"]
    assert [whole.text(turn) for turn in (first, second, third, fourth)] == ["One", "Two", "", "Four"]
    ids = [frame.id for frame in whole.frames if frame.id]
    assert len(ids) == len(set(ids))

    after = await talk.client.get(STREAM, headers={"Last-Event-ID": whole.last_id})
    assert after.status_code == 204


async def ended(talk: Conversation, turn: UUID) -> bool:
    return (await talk.client.get(f"/v1/turns/{turn}")).json()["status"] == "SUCCEEDED"


async def test_a_message_stream_has_one_turn(talk: Conversation) -> None:
    turns = [await talk.submit() for _ in range(2)]
    heard = Heard()
    reading = asyncio.create_task(read(talk.client, heard, **{"as": "ai-sdk"}))
    await answer(talk, turns[0], "One", reply="One")
    await reading
    reader = AiSdkReader()
    for frame in heard.frames:
        reader.take(frame)
    assert (reader.text, reader.message_id) == ("One", str(turns[0]))

    after = Heard()
    reading = asyncio.create_task(read(talk.client, after, heard.last_id, **{"as": "ai-sdk"}))
    await answer(talk, turns[1], "Two", reply="Two")
    await reading
    reader = AiSdkReader()
    for frame in after.frames:
        reader.take(frame)
    assert (reader.text, reader.message_id) == ("Two", str(turns[1]))


async def test_a_thread_has_a_run_for_each_turn_with_the_message_that_another_page_has_sent(talk: Conversation) -> None:
    turns = [await talk.submit() for _ in range(2)]
    heard = Heard()
    reading = asyncio.create_task(read(talk.client, heard, **{"as": "ag-ui"}))
    for turn, reply in zip(turns, ("One", "Two"), strict=True):
        await answer(talk, turn, reply, reply=reply)
    await reading
    reader = AgUiReader()
    for frame in heard.frames:
        reader.take(frame)

    assert reader.ends == ["RUN_FINISHED", "RUN_FINISHED"]
    assert [message["content"] for message in reader.messages] == ["hi", "One", "hi", "Two"]


async def test_a_waiting_stream_ends_between_two_turns_for_a_new_credential(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.watch.session_watch.WAITS_SECONDS", 0.0)
    first, second = [await talk.submit() for _ in range(2)]
    heard = Heard()
    reading = asyncio.create_task(read(talk.client, heard, wait="true"))
    await answer(talk, first, "One", reply="One")
    await reading

    assert heard.replies == ["One"]
    assert heard.text(second) == ""


async def test_a_waiting_stream_takes_a_place(talk: Conversation) -> None:
    with filled(talk.served.app.state.backend.places):
        answered = await talk.client.get(STREAM, params={"wait": "true"})

    assert answered.status_code in (429, 503)


async def test_a_stop_of_the_server_ends_a_waiting_stream(talk: Conversation) -> None:
    heard = Heard()
    reading = asyncio.create_task(read(talk.client, heard, wait="true"))
    await until(lambda: talk.listeners)

    talk.served.app.state.backend.watch.stop()

    await asyncio.wait_for(reading, 30)


@pytest.mark.parametrize("place", ["1-1", "x:1-1", "-1", "0f0e0d0c-0000-4000-8000-000000000001"])
async def test_a_malformed_place_is_refused(client: httpx.AsyncClient, place: str) -> None:
    expect_problem(await client.get(STREAM, headers={"Last-Event-ID": place}), 422, "invalid-parameter")


async def test_an_id_that_the_table_does_not_have_means_the_open_turns(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Heard()
    unknown = "0f0e0d0c-0000-4000-8000-000000000001:7-1"
    reading = asyncio.create_task(read(talk.client, heard, unknown))
    await answer(talk, turn, reply="One")
    await reading

    assert heard.replies == ["One"]
