"""Runs each test on the fake store and on Postgres, with a clock that only the test moves."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.fakes.store_pair import FakeStand, PostgresStand, Stand, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database

DATABASE = "contract_store"


@pytest.fixture(scope="session")
def virtual_database_url(stack: Stack, template: str) -> Iterator[str]:
    """One database for all tests of this package; each begins with it empty."""
    url = stack.postgres.create_database(DATABASE, template=template)
    put_on_virtual_clock(url)
    yield url
    stack.postgres.drop_database(DATABASE)


@pytest.fixture(params=["fake", pytest.param("postgres", marks=pytest.mark.stack)])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """An empty store."""
    if request.param == "fake":
        yield FakeStand()
        return
    url = request.getfixturevalue("virtual_database_url")
    async with Database(url, "contract", size=4, pinned=True) as database:
        stand = PostgresStand(database)
        await stand.reset()
        yield stand
