"""The fake store is the real one: whatever the calls and their order.

`TURNSTILE_MODEL_EXAMPLES=5000` runs that many random examples instead of the same few each time. A failure prints the
calls as a program, and the blob that `@reproduce_failure` takes.
"""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.pair import Pair
from tests.model.store_machine import StoreMachine
from tests.support.fakes.store_pair import PostgresStand, put_on_virtual_clock
from turnstile.backends.postgres.database import Database

EXAMPLES = int(os.environ.get("TURNSTILE_MODEL_EXAMPLES", "0"))

SHORT = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, max_examples=max(EXAMPLES, 1), stateful_step_count=60, derandomize=False)


@pytest.fixture
def pair(database_url: str) -> Iterator[Pair]:
    put_on_virtual_clock(database_url)
    with asyncio.Runner() as runner:
        database = Database(database_url, "model", size=1, pinned=True)
        runner.run(database.open())
        stand = PostgresStand(database_url, database)
        yield Pair(runner, stand)
        runner.run(database.close())


def test_the_fake_store_does_what_postgres_does(pair: Pair) -> None:
    class Machine(StoreMachine):
        pass

    Machine.pair = pair
    run_state_machine_as_test(Machine, settings=LONG if EXAMPLES else SHORT)
