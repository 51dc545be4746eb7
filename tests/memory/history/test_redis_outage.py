"""A history while Redis is away, silent, or has something else under its keys."""

import asyncio
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.network_faults import Cable, cable_to
from tests.support.conversations import Conversation, Reader
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def far(settings: Settings, database: Database, cable: Cable) -> AsyncIterator[Reader]:
    """A process that reaches Redis through the cable."""
    opened = Reader(settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{cable.port}"}), database)
    yield opened
    await opened.close()


async def test_with_redis_away_a_history_costs_a_query(far: Reader, cable: Cable, talk: Conversation) -> None:
    await cable.cut()
    await talk.exchange(far.history, "one")
    await talk.exchange(far.history, "two")

    assert await talk.read(far.history) == await talk.table()
    assert far.asked == ["read"]


@pytest.mark.silent_redis
async def test_a_redis_that_does_not_respond_delays_reads_once(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history)
    cable.silent = True
    began = time.monotonic()

    for _ in range(20):
        assert await talk.read(far.history) == await talk.table()

    # Each of them alone would have waited for a tenth of a lease.
    assert time.monotonic() - began < 20
    assert set(far.asked) == {"read"}


async def test_a_restarted_redis_is_used_again(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history)
    await cable.cut()
    assert await talk.read(far.history) == await talk.table()
    await cable.plug_in()

    async def read_from_redis() -> bool:
        assert await talk.read(far.history) == await talk.table()
        return far.asked == []

    await until(read_from_redis)


async def test_a_write_through_whose_response_was_lost_is_read(far: Reader, cable: Cable, talk: Conversation) -> None:
    await talk.exchange(far.history, "one")
    cable.lose_after = b"LTRIM"
    await talk.exchange(far.history, "two")

    async def read_from_redis() -> bool:
        assert await talk.read(far.history) == await talk.table()
        return far.asked == []

    await until(read_from_redis)


@pytest.mark.parametrize("stranger", ["string", "other list", "other version"])
async def test_a_foreign_value_under_the_key_is_never_served(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str, stranger: str
) -> None:
    await talk.exchange(reader.history)
    header = await keys.lindex(key, 0)
    await keys.delete(key)
    match stranger:
        case "string":
            await keys.set(key, "x")
        case "other list":
            await keys.rpush(key, "x", "y")
        case _:
            await keys.rpush(key, str(header), "what a later version of this program writes")

    assert await talk.read(reader.history) == await talk.table()
    await talk.exchange(reader.history, "goes on")
    assert await talk.read(reader.history) == await talk.table()


async def test_a_command_that_is_refused_fails_alone(
    reader: Reader, talk: Conversation, settings: Settings, database: Database, keys: redis.asyncio.Redis, key: str
) -> None:
    elsewhere = Conversation(settings, database, "another")
    await talk.exchange(reader.history)
    await elsewhere.exchange(reader.history)
    versions = [await talk.version(), await elsewhere.version()]
    await keys.set(key, "no list")

    found = await asyncio.gather(
        *(reader.history.read("t", name, version, 9) for name, version in zip(["s", "another"], versions, strict=True))
    )

    assert found == [await talk.table(), await elsewhere.table()]
    assert reader.asked == ["read"]
