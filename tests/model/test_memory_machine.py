"""The working memory is a dict with a clock, whatever the calls, the flushes and the outages."""

import asyncio
from collections.abc import Iterator

import pytest
import redis.asyncio

from tests.memory.session_memory import Room
from tests.model.examples import run_examples
from tests.model.memory_machine import MemoryMachine
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def machine(settings: Settings) -> Iterator[type[MemoryMachine]]:
    with asyncio.Runner() as runner:
        database = Database(settings.database, "model", size=1, pinned=True)
        keys = redis.asyncio.Redis.from_url(settings.memory_redis, decode_responses=True)
        runner.run(database.open())

        class Machine(MemoryMachine):
            pass

        Machine.runner = runner
        # By the lease goes how long Redis is waited for, and on a busy machine that must not decide.
        Machine.room = Room(settings.model_copy(update={"lease_seconds": 10.0}), database, keys)
        yield Machine
        runner.run(Machine.room.close())
        runner.run(keys.aclose())
        runner.run(database.close())


@pytest.mark.long
def test_the_working_memory_does_what_a_dict_with_a_clock_does(machine: type[MemoryMachine]) -> None:
    run_examples(machine, examples=25, steps=25)
