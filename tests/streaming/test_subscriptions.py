"""Hints about events: one connection for all listeners of a process, which nothing that is published ends."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.support.probes import until
from tests.support.redis_hands import OwnEventHints
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind
from turnstile.streaming.subscriptions import EventHints, Listener

CHANNEL, ANOTHER = "events:a", "events:b"


@pytest.fixture
async def hints(settings: Settings) -> AsyncIterator[EventHints]:
    made = OwnEventHints(settings)
    yield made
    await made.close()


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(settings.memory_redis, decode_responses=True) as opened:
        yield opened


async def told_of_an_end(client: redis.asyncio.Redis, channel: str, listener: Listener) -> None:
    """Waits until an end that is published now is heard; the listener may still be on its way."""

    async def tried() -> bool:
        await client.publish(channel, EventKind.END.value)
        await listener.wait(0.1)
        return listener.take_end()

    await until(tried)


@pytest.mark.parametrize("published", ["nonsense", b"\xff\xfe\x00"], ids=["no kind", "no UTF-8"])
async def test_what_is_no_hint_is_passed_over(
    client: redis.asyncio.Redis, hints: EventHints, published: str | bytes
) -> None:
    with hints.listen(CHANNEL) as listener, hints.listen(ANOTHER) as another:
        await told_of_an_end(client, CHANNEL, listener)
        connections = await client.client_list(_type="pubsub")

        await client.publish(CHANNEL, published)

        await told_of_an_end(client, ANOTHER, another)
        assert {one["id"] for one in await client.client_list(_type="pubsub")} <= {one["id"] for one in connections}
