"""The store: each test that asks for it runs on the fake and on Postgres, with a clock that only the test moves."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.fakes.store_pair import FakeStand, PostgresStand, Stand, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.queue_settings import QueueSettings

DATABASE = "contract_store"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # These tests share an event loop, so that they can share a connection: one of each test's own would plan each statement anew.
    for item in items:
        if "either_store" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture
def queue() -> QueueSettings:
    """Declared, but not in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture(scope="session")
def virtual_database(stack: Stack, template: str) -> Iterator[DatabasePlace]:
    """One database for all tests of this package; each begins with it empty."""
    url = stack.postgres.create_database(DATABASE, template=template)
    yield put_on_virtual_clock(url)
    stack.postgres.drop_database(DATABASE)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def real_store(virtual_database: DatabasePlace) -> AsyncIterator[PostgresStand]:
    """Postgres, by one connection."""
    async with Database(virtual_database, "contract", size=1, pinned=True) as database:
        yield PostgresStand(database)


@pytest.fixture(params=["fake", pytest.param("postgres", marks=pytest.mark.stack)])
def either_store(request: pytest.FixtureRequest) -> Stand:
    """One of the two."""
    if request.param == "fake":
        return FakeStand()
    real: PostgresStand = request.getfixturevalue("real_store")
    return real


@pytest_asyncio.fixture(loop_scope="session")
async def store(either_store: Stand) -> Stand:
    """An empty store."""
    if isinstance(either_store, PostgresStand):
        await either_store.reset()
    return either_store
