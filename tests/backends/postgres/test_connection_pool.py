"""A process's connections: as many as a busy moment needs, and few or none when it is quiet."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
import redis

import turnstile.backends.postgres.database
from tests.support.probes import let_the_loop_turn, until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis import pools as redis_pools
from turnstile.backends.redis.connect import connect

PATIENCE_SECONDS = 60.0


def opened(url: str, application: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application]
        ).fetchone()
    assert row is not None
    return int(row[0])


def end_all(url: str, application: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [application]
        )


async def fetch_within(bounds: list[asyncio.Timeout], database: Database) -> str:
    """What became of a call under an `asyncio.timeout` that the caller lets end."""
    try:
        async with asyncio.timeout(None) as bound:
            bounds.append(bound)
            await database.fetch("SELECT pg_sleep(5)", {})
    except TimeoutError:
        return "timed out"
    return "went on"


async def test_postgres_is_given_back_what_a_busy_moment_took(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.backends.postgres.database, "IDLE_SECONDS", 0.2)

    async with Database(database_url, "test-pool", size=4) as database:
        async with AsyncExitStack() as taken:
            for _ in range(4):
                await taken.enter_async_context(database.connection())
            busy = await asyncio.to_thread(opened, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 1)

    assert busy == 4


async def test_connections_that_the_server_has_ended_are_not_handed_out(database_url: str) -> None:
    # As at each restart: the first calls after it would fail, one for each connection that lay idle.
    async with Database(database_url, "test-pool", size=4) as database:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.2)", {}) for _ in range(4)))
        await asyncio.to_thread(end_all, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 0)

        answers = await asyncio.gather(*(database.fetch("SELECT 1 AS one", {}) for _ in range(8)))

        assert answers == [[{"one": 1}]] * 8


async def test_a_connection_that_was_closed_at_this_end_is_not_handed_out(database_url: str) -> None:
    async with Database(database_url, "test-pool", size=1) as database:
        await database.fetch("SELECT 1", {})
        await database._pool._pool[0].close()

        assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancellation_is_never_lost_while_a_connection_is_handed_over(database_url: str, steps: int) -> None:
    async with Database(database_url, "test-pool", size=1) as database:
        async with database.connection():
            waiting = asyncio.create_task(database.fetch("SELECT pg_sleep(20)", {}))
            await until(lambda: database._pool.get_stats()["requests_waiting"] == 1)
        await let_the_loop_turn(steps)

        waiting.cancel()

        done, _ = await asyncio.wait({waiting}, timeout=10.0)
        waiting.cancel()
        assert done == {waiting}
        assert waiting.cancelled()
        # The pool has its only connection again.
        assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_time_out_is_never_lost_while_a_connection_is_handed_over(database_url: str) -> None:
    # A handler's own `asyncio.timeout` cancels, too.
    async with Database(database_url, "test-pool", size=1) as database:
        for steps in range(12):
            async with database.connection():
                bounds: list[asyncio.Timeout] = []
                waiting = asyncio.create_task(fetch_within(bounds, database))
                await until(lambda: database._pool.get_stats()["requests_waiting"] == 1)
            await let_the_loop_turn(steps)
            bounds[0].reschedule(0.0)
            assert await waiting == "timed out", steps


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

    def say(self, url: str, *words: str) -> None:
        """To whoever waits, over a connection that is none of his."""
        with redis.Redis.from_url(url) as client:
            client.rpush("said", *words)

    @pytest.mark.parametrize("most", [None, 4])
    async def test_it_is_given_back_all_that_lies_idle(self, url: str, most: int | None) -> None:
        client: Any = connect(url, PATIENCE_SECONDS, max_connections=most)
        waiting = [asyncio.create_task(client.blpop(["said"], timeout=0)) for _ in range(4)]
        await until(lambda: self.opened(url) == 4)
        self.say(url, *"1234")
        await asyncio.gather(*waiting)

        await until(lambda: self.opened(url) == 0)

        assert await client.ping()
        await client.aclose()

    async def test_what_is_in_use_is_left_alone(self, url: str) -> None:
        client: Any = connect(url, PATIENCE_SECONDS)
        waiting = asyncio.create_task(client.blpop(["said"], timeout=0))
        await until(lambda: self.opened(url) == 1)
        await asyncio.gather(*(client.ping() for _ in range(3)))

        await until(lambda: self.opened(url) == 1)
        self.say(url, "at last")

        assert list(await waiting) == ["said", "at last"]
        await client.aclose()

    async def test_a_subscription_is_left_alone_however_quiet(self, url: str) -> None:
        client: Any = connect(url, PATIENCE_SECONDS)
        async with client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe("quiet")
            await asyncio.gather(*(client.ping() for _ in range(3)))
            await until(lambda: self.opened(url) == 1)
            await client.publish("quiet", "at last")

            message = await until(lambda: channel.get_message(timeout=1))

        assert message["data"] == "at last"
        await client.aclose()

    @pytest.mark.parametrize("most", [None, 4])
    async def test_what_the_server_has_closed_is_not_handed_out(
        self, url: str, most: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # As at each restart; every call on such a connection would open a circuit. It is the server that closes them, and not
        # this end, as on a machine that is slow enough for them to lie idle.
        monkeypatch.setattr(redis_pools, "IDLE_SECONDS", PATIENCE_SECONDS)
        client: Any = connect(url, PATIENCE_SECONDS, max_connections=most)
        waiting = [asyncio.create_task(client.blpop(["said"], timeout=0)) for _ in range(4)]
        await until(lambda: self.opened(url) == 4)
        self.say(url, *"1234")
        await asyncio.gather(*waiting)
        with redis.Redis.from_url(url) as outside:
            for one in outside.client_list():
                if one["db"] == str(self.URL_DATABASE) and one["id"] != str(outside.client_id()):
                    outside.client_kill_filter(_id=one["id"])
        lying = client.connection_pool._get_free_connections()
        await until(lambda: all(one._reader.at_eof() for one in lying))

        answers = await asyncio.gather(*(client.ping() for _ in range(4)))

        assert answers == [True] * 4
        await client.aclose()

    @pytest.mark.parametrize("most", [None, 4])
    @pytest.mark.parametrize("steps", range(12))
    async def test_a_cancellation_is_never_lost_while_a_command_is_sent(
        self, url: str, most: int | None, steps: int
    ) -> None:
        client: Any = connect(url, PATIENCE_SECONDS, max_connections=most)
        await client.ping()
        waiting = asyncio.create_task(client.blpop(["never said"], timeout=0))
        await let_the_loop_turn(steps)

        waiting.cancel()

        done, _ = await asyncio.wait({waiting}, timeout=5.0)
        assert done == {waiting}
        assert waiting.cancelled()
        await client.aclose()
