"""A process's connections: as many as a busy moment needs, and few or none when it is quiet."""

import asyncio

import psycopg
import pytest
import redis

import turns.database
from tests.probes import until
from tests.stacks.stack import Stack
from turns import redis_pools
from turns.database import Database
from turns.redis_connections import connect


def opened(url: str, application: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_postgres_is_given_back_what_a_busy_moment_took(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns.database, "IDLE_SECONDS", 0.2)

    async with Database(database_url, "test-pool", size=4) as database:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.5)", {}) for _ in range(4)))
        busy = await asyncio.to_thread(opened, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 1)

    assert busy == 4


class TestOfRedis:
    """In a database of its number's own, by which the server tells its clients apart."""

    URL_DATABASE = 11

    @pytest.fixture
    def url(self, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(redis_pools, "IDLE_SECONDS", 0.2)
        return f"{stack.redis.url.rpartition('/')[0]}/{self.URL_DATABASE}"

    def opened(self, url: str) -> int:
        """By the server's own count, without the one that asks."""
        with redis.Redis.from_url(url) as client:
            return sum(one["db"] == str(self.URL_DATABASE) for one in client.client_list()) - 1

    @pytest.mark.parametrize("most", [None, 4])
    async def test_it_is_given_back_all_that_lies_idle(self, url: str, most: int | None) -> None:
        client = connect(url, 5.0, max_connections=most)
        await asyncio.gather(*(client.blpop(["nothing"], timeout=0.3) for _ in range(4)))
        busy = await asyncio.to_thread(self.opened, url)

        await until(lambda: self.opened(url) == 0)

        assert busy == 4
        assert await client.ping()
        await client.aclose()

    async def test_what_is_in_use_is_left_alone(self, url: str) -> None:
        client = connect(url, 5.0)
        await client.ping()
        waiting = asyncio.create_task(client.blpop(["later"], timeout=4))
        other = asyncio.create_task(client.blpop(["nothing"], timeout=0.1))
        await other

        await until(lambda: self.opened(url) == 1)
        await client.rpush("later", "said")

        assert list(await waiting) == ["later", "said"]
        await client.aclose()

    async def test_a_subscription_is_left_alone_however_quiet(self, url: str) -> None:
        client = connect(url, 5.0)
        async with client.pubsub() as channel:
            await channel.subscribe("quiet")
            await asyncio.gather(*(client.blpop(["nothing"], timeout=0.1) for _ in range(2)))
            await until(lambda: self.opened(url) == 1)
            await client.publish("quiet", "at last")

            async def heard() -> bool:
                return (await channel.get_message(ignore_subscribe_messages=True, timeout=1) or {}).get(
                    "data"
                ) == "at last"

            await until(heard)
        await client.aclose()
