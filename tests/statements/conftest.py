"""The store: one Postgres for all tests that ask for it. Each begins with empty tables and the same time."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.statements.store import Store, put_on_virtual_clock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.queue_settings import QueueSettings

DATABASE = "statements"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # These tests share an event loop, so that they can share a connection: a new connection would plan each statement again.
    for item in items:
        if "store" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture
def queue() -> QueueSettings:
    """Declared, but not in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture(scope="session")
def store_database(stack: Stack, template: str) -> Iterator[DatabasePlace]:
    url = stack.postgres.create_database(DATABASE, template=template)
    yield put_on_virtual_clock(url)
    stack.postgres.drop_database(DATABASE)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def opened_store(store_database: DatabasePlace) -> AsyncIterator[Store]:
    async with Database(store_database, "statements", size=1, pinned=True) as database:
        yield Store(database)


@pytest_asyncio.fixture(loop_scope="session")
async def store(opened_store: Store) -> Store:
    await opened_store.reset()
    return opened_store
