"""A history that Redis has lost is rebuilt by one reader, for all of its process."""

import asyncio

import pytest
import redis.asyncio

from tests.support.conversations import Conversation, Reader
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError


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


async def test_one_of_many_concurrent_readers_asks_the_table(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    version = await talk.version()

    found = await asyncio.gather(*(reader.history.read("t", "s", version, 9) for _ in range(20)))

    assert found == [await talk.table()] * 20
    assert reader.asked == ["rebuild"]


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


async def test_a_cancelled_reader_does_not_cancel_the_rebuild(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    reader.watched.open.clear()
    first, second = (asyncio.create_task(talk.read(reader.history)) for _ in range(2))
    await until(lambda: reader.watched.asked)

    first.cancel()
    reader.watched.open.set()

    assert await second == await talk.table()
    assert reader.asked == ["rebuild"]
    assert first.cancelled()


async def test_an_outage_of_the_database_is_raised_and_the_next_read_works(
    reader: Reader, talk: Conversation, keys: redis.asyncio.Redis, key: str
) -> None:
    await talk.exchange(reader.history)
    await keys.delete(key)
    reader.watched.failure = DatabaseUnavailableError("away")
    with pytest.raises(DatabaseUnavailableError):
        await talk.read(reader.history)

    reader.watched.failure = None

    assert await talk.read(reader.history) == await talk.table()
