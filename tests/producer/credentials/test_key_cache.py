"""What an API process remembers of the keys, and what it asks Postgres."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.producer.credentials.conftest import Clock
from tests.support.probes import until
from tests.support.stored_keys import id_of, revoke, store_key
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.credentials import key_cache
from turnstile.producer.credentials.key_cache import (
    AWAY_SECONDS,
    FRESH_SECONDS,
    MOST_STRANGERS,
    PAUSE_SECONDS,
    RETRY_SECONDS,
    KeyCache,
)
from turnstile.producer.http.problems import ProblemError
from turnstile.queries.api_keys import read_keys

HANGS_SECONDS = 20.0


class Reads:
    """The statements that the cache sends; `away` makes them fail, and `hold` makes them wait."""

    def __init__(self, really: Callable[[Database, Sequence[str]], Any]) -> None:
        self.batches: list[list[str]] = []
        self.away = False
        self.hold = asyncio.Event()
        self.hold.set()
        self._really = really

    async def __call__(self, database: Database, key_ids: Sequence[str]) -> Any:
        self.batches.append(list(key_ids))
        await self.hold.wait()
        if self.away:
            raise DatabaseUnavailableError("away")
        return await self._really(database, key_ids)


@pytest.fixture
def reads() -> Reads:
    return Reads(read_keys)


@pytest.fixture
def cache(database: Database, clock: Clock, reads: Reads) -> KeyCache:
    return KeyCache(database, clock, read=reads)


async def is_revoked(cache: KeyCache, key_id: str) -> bool:
    found = await cache.find(key_id)
    assert found is not None
    return found.stored.revoked


async def test_a_revocation_takes_effect_once_the_answer_is_no_longer_fresh(
    cache: KeyCache, database: Database, clock: Clock, reads: Reads
) -> None:
    key_id = id_of(key := await store_key(database))
    assert not await is_revoked(cache, key_id)
    await revoke(database, key)

    clock.now += FRESH_SECONDS - 0.01
    assert not await is_revoked(cache, key_id)
    assert len(reads.batches) == 1
    clock.now += 0.01
    assert await is_revoked(cache, key_id)


async def test_the_end_of_a_key_is_by_the_servers_clock(cache: KeyCache, database: Database, clock: Clock) -> None:
    found = await cache.find(id_of(await store_key(database, lives_seconds=3600)))

    assert found is not None
    assert found.expires_at is not None
    assert clock.now + 3500 < found.expires_at <= clock.now + 3600


async def test_a_known_key_stays_valid_for_a_while_when_postgres_is_away(
    cache: KeyCache, database: Database, clock: Clock, reads: Reads
) -> None:
    key_id = id_of(await store_key(database))
    await cache.find(key_id)
    reads.away = True

    clock.now += AWAY_SECONDS - RETRY_SECONDS - 0.01
    assert not await is_revoked(cache, key_id)
    asked = len(reads.batches)
    clock.now += RETRY_SECONDS - 0.01
    assert not await is_revoked(cache, key_id)
    assert len(reads.batches) == asked
    clock.now += 0.02
    with pytest.raises(DatabaseUnavailableError):
        await cache.find(key_id)

    reads.away = False
    assert not await is_revoked(cache, key_id)


async def test_an_unknown_key_is_not_judged_while_postgres_is_away(
    cache: KeyCache, database: Database, reads: Reads
) -> None:
    key_id = id_of(await store_key(database))
    reads.away = True

    with pytest.raises(DatabaseUnavailableError):
        await cache.find(key_id)


async def test_unknown_keys_share_a_statement_at_a_time_and_few_may_wait(
    database: Database, clock: Clock, reads: Reads
) -> None:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    cache = KeyCache(database, clock, wait, read=reads)
    known = id_of(await store_key(database))
    await cache.find(known)
    clock.now += FRESH_SECONDS
    reads.batches.clear()
    reads.hold.clear()
    absent = [f"tsk_{number:016x}" for number in range(MOST_STRANGERS)]
    waiting = [asyncio.create_task(cache.find(key_id)) for key_id in absent]
    await until(lambda: reads.batches)

    # One more stranger is refused, and a key that is known is not delayed.
    with pytest.raises(ProblemError, match="unavailable"):
        await asyncio.wait_for(cache.find("tsk_ffffffffffffffff"), HANGS_SECONDS)
    again = asyncio.create_task(cache.find(known))
    await until(lambda: [known] in reads.batches)
    reads.hold.set()

    assert await asyncio.gather(*waiting) == [None] * MOST_STRANGERS
    assert await again is not None
    assert len(reads.batches) <= 3
    waited.clear()
    assert await cache.find(absent[0]) is None
    assert max(waited) == pytest.approx(PAUSE_SECONDS)


async def test_whether_a_key_exists_is_asked_again_until_there_is_one(
    cache: KeyCache, database: Database, clock: Clock
) -> None:
    assert not await cache.exist()
    key_id = id_of(await store_key(database))
    assert not await cache.exist()
    clock.now += FRESH_SECONDS
    assert await cache.exist()

    # Nothing opens the API again, not even manual SQL.
    await database.fetch("DELETE FROM api_keys WHERE key_id = %(id)s", {"id": key_id})
    clock.now += FRESH_SECONDS
    assert await cache.exist()


async def test_a_key_whose_row_is_gone_is_unknown(cache: KeyCache, database: Database, clock: Clock) -> None:
    key_id = id_of(await store_key(database))
    assert await cache.find(key_id) is not None
    await database.fetch("DELETE FROM api_keys WHERE key_id = %(id)s", {"id": key_id})

    clock.now += FRESH_SECONDS
    assert await cache.find(key_id) is None


async def test_the_keys_that_were_read_longest_ago_are_forgotten(
    cache: KeyCache, database: Database, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "MOST_KNOWN", 2)
    ids = [id_of(await store_key(database)) for _ in range(3)]
    for key_id in ids:
        await cache.find(key_id)
    reads.batches.clear()

    for key_id in (ids[1], ids[2], ids[0]):
        await cache.find(key_id)

    assert reads.batches == [[ids[0]]]
