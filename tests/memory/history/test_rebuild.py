"""A history that Redis has lost, does not give or has in another form is read from Postgres."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.conversations import Conversation, Reader
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_a_missing_entry_is_rebuilt_once(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)

    assert await talk.read(reader.history) == await talk.table()
    assert await talk.read(reader.history) == await talk.table()
    assert reader.asked == ["rebuild"]


async def test_an_entry_ends_by_itself(
    reader: Reader, talk: Conversation, settings: Settings, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    assert 0 < await keys.pttl(key) <= settings.history_ttl_seconds * 1000

    await keys.pexpire(key, 5_000)
    await talk.exchange(reader.history)
    assert await keys.pttl(key) > 5_000

    await keys.delete(key)
    await talk.read(reader.history)
    assert 0 < await keys.pttl(key) <= settings.history_ttl_seconds * 1000


async def test_a_rebuild_does_not_overwrite_a_newer_entry(
    reader: Reader, other: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history, "one")
    await keys.delete(key)
    reader.watched.open.clear()
    slow = asyncio.create_task(talk.read(reader.history))
    await until(lambda: reader.watched.asked)
    older = await talk.table()
    await talk.answer(await talk.begin("two"))
    await talk.read(other.history)
    assert other.asked == ["rebuild"]

    reader.watched.open.set()

    assert await slow == older
    assert await talk.read(other.history) == await talk.table()
    assert other.asked == []


# --- Redis away, or with something else under the key


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def far(settings: Settings, database: Database, cable: Cable) -> AsyncIterator[Reader]:
    """A process that reaches Redis through the cable."""
    opened = Reader(settings.model_copy(update={"redis_url": at_port(settings.redis_url, cable.port)}), database)
    yield opened
    await opened.close()


async def test_with_redis_away_a_history_costs_a_query(far: Reader, cable: Cable, talk: Conversation) -> None:
    await cable.cut()
    await talk.exchange(far.history, "one")
    await talk.exchange(far.history, "two")

    assert await talk.read(far.history) == await talk.table()
    assert far.asked == ["read"]


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
