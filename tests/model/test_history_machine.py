"""What the cache gives is what the table has: on the real servers, and on the stand-ins of the simulation.

`TURNSTILE_MODEL_EXAMPLES=5000` runs that many random examples instead of the same few each time. A failure prints the
calls as a program, and the blob that `@reproduce_failure` takes.
"""

import asyncio
import os
from uuid import uuid4

import redis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.history_machine import DEPTH, HistoryMachine
from tests.support.fakes.lock import Direct, FakeClient, FakeRedis
from tests.support.fakes.store_pair import FakeStand, PostgresStand, Stand, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.client import RedisClient
from turnstile.backends.redis.connect import connect
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings

EXAMPLES = int(os.environ.get("TURNSTILE_MODEL_EXAMPLES", "0"))

SHORT = hypothesis_settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
SHORTER = hypothesis_settings(SHORT, max_examples=25)
"""On the real servers. Only the servers differ: the machine does the rest of its work on the stand-ins."""
LONG = hypothesis_settings(SHORT, max_examples=max(EXAMPLES, 1), stateful_step_count=60, derandomize=False)


def settings_of(url: str) -> Settings:
    """Of a process that keeps little, and finds it full soon."""
    prefix = f"{uuid4().hex[:8]}:"
    return Settings(redis_url=url, queues=(QueueSettings(name="turns"),), redis_prefix=prefix, history_messages=DEPTH)


def test_the_cache_is_the_table_on_the_real_servers(stack: Stack, database_url: str) -> None:
    put_on_virtual_clock(database_url)
    looking = redis.Redis.from_url(stack.redis.url)

    with asyncio.Runner() as runner:
        database = Database(database_url, "model", size=2, pinned=True)
        runner.run(database.open())
        stand = PostgresStand(database_url, database)

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
        run_state_machine_as_test(Machine, settings=LONG if EXAMPLES else SHORTER)
        runner.run(database.close())
    looking.close()


def test_the_cache_is_the_table_on_the_stand_ins() -> None:
    with asyncio.Runner() as runner:

        class Machine(HistoryMachine):
            def open_store(self) -> Stand:
                return FakeStand()

            def open_redis(self) -> RedisClient:
                self.server = FakeRedis(runner.get_loop().time)
                return FakeClient(self.server, Direct())

            def flush_redis(self) -> None:
                self.server.flush()

        Machine.runner, Machine.settings = runner, settings_of("redis://127.0.0.1:1/0")
        run_state_machine_as_test(Machine, settings=LONG if EXAMPLES else SHORT)
