"""What the cache gives is what the table has: on the real servers, and on the stand-ins of the simulation."""

import asyncio
from uuid import uuid4

import redis

from tests.model.examples import run_examples
from tests.model.history_machine import DEPTH, HistoryMachine
from tests.support.fakes.lock import FakeRedis, FakeRedisClient
from tests.support.fakes.store_pair import FakeStand, PostgresStand, Stand, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.redis_client import RedisClient
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings


def settings_of(url: str) -> Settings:
    """Of a process that keeps little, and finds it full soon."""
    prefix = f"{uuid4().hex[:8]}:"
    return Settings(redis_url=url, queues=(QueueSettings(name="turns"),), redis_prefix=prefix, history_messages=DEPTH)


def test_the_cache_is_the_table_on_the_real_servers(stack: Stack, database_url: str) -> None:
    place = put_on_virtual_clock(database_url)
    looking = redis.Redis.from_url(stack.redis.url)

    with asyncio.Runner() as runner:
        database = Database(place, "model", size=2, pinned=True)
        runner.run(database.open())
        stand = PostgresStand(database)

        class Machine(HistoryMachine):
            def open_store(self) -> Stand:
                runner.run(stand.reset())
                return stand

            def open_redis(self) -> RedisClient:
                self.flush_redis()
                return connect(self.settings.memory_redis, 1.0)

            def flush_redis(self) -> None:
                for key in looking.scan_iter(f"{self.settings.redis_prefix}*"):
                    looking.delete(key)

        Machine.runner, Machine.settings = runner, settings_of(stack.redis.url)
        # Fewer than on the stand-ins: only the servers differ.
        run_examples(Machine, examples=25, steps=40)
        runner.run(database.close())
    looking.close()


def test_the_cache_is_the_table_on_the_stand_ins() -> None:
    with asyncio.Runner() as runner:

        class Machine(HistoryMachine):
            def open_store(self) -> Stand:
                return FakeStand()

            def open_redis(self) -> RedisClient:
                self.server = FakeRedis(runner.get_loop().time)
                return FakeRedisClient(self.server)

            def flush_redis(self) -> None:
                self.server.flush()

        Machine.runner, Machine.settings = runner, settings_of("redis://127.0.0.1:1/0")
        run_examples(Machine, examples=40, steps=40)
