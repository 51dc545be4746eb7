"""A waiting turn is cancelled: requests that follow it or wait for it end at once, although no worker publishes its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.network_faults import Cable, cable_to
from tests.producer.api.sse_client import Transcript, read_events
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream

NEVER = 900.0

Cancel = Callable[[Conversation, UUID], Awaitable[None]]


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def talk(settings: Settings, cable: Cable) -> AsyncIterator[Conversation]:
    """A conversation whose events go through the cable."""
    through = settings.model_copy(
        update={"memory_redis_url": f"redis://127.0.0.1:{cable.port}", "stream_heartbeat_seconds": NEVER}
    )
    async with conversing(through) as conversation:
        yield conversation


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a hint, no reader and no waiter would notice anything in time."""
    for name in ("TICK_SECONDS", "LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(f"turnstile.producer.watch.turn_watch.{name}", NEVER)


async def by_id(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post(f"/v1/turns/{turn}/cancel")
    assert answer.json()["status"] == "CANCELED"


async def by_session(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post("/v1/sessions/s/cancel")
    assert answer.json()["canceled"] == 1


async def by_interrupt(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post("/v1/sessions/s/turns", json={"input": "no, wait", "on_busy": "interrupt"})
    assert answer.status_code == 202


async def until_listened_to(talk: Conversation, turn: UUID, listeners: int) -> None:
    """So many requests listen, and Redis knows of it."""
    hints = talk.served.app.state.backend.watch._hints
    await until(lambda: sum(map(len, hints._listeners.values())) == listeners)
    channel = name_stream(talk.settings.redis_prefix, "acme", "s", turn)
    async with redis.asyncio.Redis.from_url(talk.settings.redis_url, decode_responses=True) as client:

        async def known() -> bool:
            [(_, many)] = await client.pubsub_numsub(channel)
            return many > 0

        await until(known)


def following(talk: Conversation, turn: UUID, heard: Transcript, **parameters: str) -> "asyncio.Task[None]":
    return asyncio.create_task(read_events(talk.client, turn, heard, **parameters))


@pytest.mark.parametrize("cancel", [by_id, by_session, by_interrupt])
@pytest.mark.usefixtures("no_polling")
async def test_readers_and_waiters_are_notified_at_once(talk: Conversation, cancel: Cancel) -> None:
    turn = await talk.submit()
    heard = Transcript()
    reading = following(talk, turn, heard)
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until_listened_to(talk, turn, 2)

    await cancel(talk, turn)

    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELED")
    await asyncio.wait_for(reading, 30)
    assert heard.kinds == ["metadata", "end"]
    assert heard.end is not None
    assert heard.end.data == {"turn_id": str(turn), "status": "CANCELED", "reason": heard.end.data["reason"]}


@pytest.mark.usefixtures("no_polling")
async def test_a_reader_is_notified_when_another_readers_disconnect_cancels_the_turn(talk: Conversation) -> None:
    turn = await talk.submit()
    heard, left = Transcript(), Transcript()
    reading = following(talk, turn, heard)
    leaving = following(talk, turn, left, on_disconnect="cancel")
    await until_listened_to(talk, turn, 2)

    leaving.cancel()

    await asyncio.wait_for(reading, 30)
    assert heard.kinds == ["metadata", "end"]


async def test_without_redis_they_learn_of_it_by_polling(talk: Conversation, cable: Cable) -> None:
    turn = await talk.submit()
    await cable.cut()
    heard = Transcript()
    reading = following(talk, turn, heard)
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: heard.events)

    await by_id(talk, turn)

    answer = await asyncio.wait_for(waiting, 30)
    await asyncio.wait_for(reading, 30)
    assert answer.json()["status"] == "CANCELED"
    assert heard.kinds == ["metadata", "end"]


@pytest.mark.usefixtures("no_polling")
async def test_a_false_hint_of_an_end_ends_nothing(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Transcript()
    reading = following(talk, turn, heard)
    await until_listened_to(talk, turn, 1)
    async with redis.asyncio.Redis.from_url(talk.settings.redis_url) as forger:
        await forger.publish(name_stream(talk.settings.redis_prefix, "acme", "s", turn), "end")

    talk.work(turn)
    talk.script.emit("still here")
    talk.script.reply("still here")

    await asyncio.wait_for(reading, 30)
    assert heard.kinds == ["metadata", "status", "delta", "end"]
    assert heard.end is not None
    assert heard.end.data["status"] == "SUCCEEDED"
