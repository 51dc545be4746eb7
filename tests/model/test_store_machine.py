"""The fake store is the real one: whatever the calls and their order."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.model.examples import run_examples
from tests.model.pair import Pair
from tests.model.store_machine import StoreMachine
from tests.support.fakes.store_pair import PostgresStand, put_on_virtual_clock
from turnstile.backends.postgres.database import Database


@pytest.fixture
def pair(database_url: str) -> Iterator[Pair]:
    place = put_on_virtual_clock(database_url)
    with asyncio.Runner() as runner:
        database = Database(place, "model", size=1, pinned=True)
        runner.run(database.open())
        stand = PostgresStand(database)
        yield Pair(runner, stand)
        runner.run(database.close())


def test_the_fake_store_does_what_postgres_does(pair: Pair) -> None:
    class Machine(StoreMachine):
        pass

    Machine.pair = pair
    run_examples(Machine, examples=20, steps=30)
