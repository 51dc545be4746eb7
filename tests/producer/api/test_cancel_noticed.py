"""A waiting turn is cancelled: requests that follow it or wait for it end at once, although no worker publishes its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest
import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream

NEVER = 900.0

Cancel = Callable[[Conversation, UUID], Awaitable[None]]


@pytest.fixture
async def talk(settings: Settings) -> AsyncIterator[Conversation]:
    async with conversing(settings.model_copy(update={"stream_heartbeat_seconds": NEVER})) as conversation:
        yield conversation


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a hint, no reader and no waiter would notice anything in time."""
    for name in ("looks.TICK_SECONDS", "turn_watch.LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(f"turnstile.producer.watch.{name}", NEVER)


async def by_id(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post(f"/v1/turns/{turn}/cancel")
    assert answer.json()["status"] == "CANCELED"


async def by_session(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post("/v1/sessions/s/cancel")
    assert answer.json()["canceled"] == 1


async def by_interrupt(talk: Conversation, turn: UUID) -> None:
    answer = await talk.client.post("/v1/sessions/s/turns", json={"input": "no, wait", "on_busy": "interrupt"})
    assert answer.status_code == 202


async def until_listened_to(talk: Conversation, keys: redis.asyncio.Redis, turn: UUID, listeners: int) -> None:
    """So many requests listen, and Redis has their subscription."""
    await until(lambda: talk.listeners == listeners)
    channel = name_stream(talk.settings.redis_prefix, "acme", "s", turn)

    async def known() -> bool:
        [(_, many)] = await keys.pubsub_numsub(channel)
        return bool(many)

    await until(known)


@pytest.mark.parametrize("cancel", [by_id, by_session, by_interrupt])
async def test_readers_and_waiters_are_notified_at_once(
    talk: Conversation, keys: redis.asyncio.Redis, cancel: Cancel
) -> None:
    turn = await talk.submit()
    heard, reading = talk.follow(turn)
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until_listened_to(talk, keys, turn, 2)

    await cancel(talk, turn)

    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELED")
    await asyncio.wait_for(reading, 30)
    assert heard.kinds == ["metadata", "end"]
    assert heard.end is not None
    assert heard.end.data == {"turn_id": str(turn), "status": "CANCELED", "reason": heard.end.data["reason"]}


async def test_a_false_hint_of_an_end_ends_nothing(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    heard, reading = talk.follow(turn)
    await until_listened_to(talk, keys, turn, 1)
    await keys.publish(name_stream(talk.settings.redis_prefix, "acme", "s", turn), "end")

    talk.work(turn)
    talk.script.emit("still here")
    talk.script.reply("still here")

    await asyncio.wait_for(reading, 30)
    assert heard.kinds == ["metadata", "status", "delta", "end"]
    assert heard.end is not None
    assert heard.end.data["status"] == "SUCCEEDED"
