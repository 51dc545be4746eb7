"""What the cache gives is what the table has."""

import asyncio
from uuid import uuid4

import pytest
import redis

from tests.model.examples import run_examples
from tests.model.history_machine import DEPTH, HistoryMachine
from tests.statements.store import Store, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings


@pytest.mark.long
def test_the_cache_is_the_table(stack: Stack, database_url: str) -> None:
    place = put_on_virtual_clock(database_url)
    # A cache that holds few messages is often full.
    settings = Settings(
        redis_url=stack.redis.url,
        queues=(QueueSettings(name="turns"),),
        redis_prefix=f"{uuid4().hex[:8]}:",
        history_messages=DEPTH,
    )
    with asyncio.Runner() as runner, redis.Redis.from_url(stack.redis.url) as keys:
        database = Database(place, "model", size=2, pinned=True)
        runner.run(database.open())

        class Machine(HistoryMachine):
            pass

        Machine.runner, Machine.settings, Machine.store, Machine.keys = runner, settings, Store(database), keys
        run_examples(Machine, examples=40, steps=40)
        runner.run(database.close())
