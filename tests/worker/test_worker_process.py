"""The worker process, as it puts its parts together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import dict_row

from tests.producer.api.network_faults import at_port, cable_to
from tests.support.probes import until
from tests.support.process_roles import as_worker
from tests.support.processors import ECHO
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.advance_fences import ADVANCE
from turnstile.worker.lifecycle.shutdown import Shutdown
from turnstile.worker.resources import Resources
from turnstile.worker.worker_process import _Worker


@asynccontextmanager
async def beating(settings: Settings, database: Database, queues: MessageQueues) -> AsyncIterator[_Worker]:
    """A worker with its heartbeat, whose consumer is not run."""
    async with AsyncExitStack() as stack:
        address = await queues.find(settings.queue)
        resources = Resources.open(stack, settings, ECHO, "worker-a", database, queues, address, None)
        worker = _Worker(resources, Shutdown())
        worker.work.start()
        stack.push_async_callback(worker.work.end, 10.0)
        yield worker


async def test_a_worker_whose_polls_do_not_return_says_in_the_registry_that_it_is_deaf(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    async def says_so() -> bool:
        return bool(await database.fetch("SELECT FROM workers WHERE deaf_for_seconds > 0", {}))

    async with beating(settings, database, queues):
        await until(says_so)


async def test_a_worker_whose_calls_get_no_connection_is_starved_and_not_live(
    settings: Settings, queues: MessageQueues
) -> None:
    async with (
        Database(as_worker(settings).database, "test", size=1, wait_seconds=60.0) as database,
        beating(settings, database, queues) as worker,
        await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True, row_factory=dict_row) as outside,
    ):

        async def starved() -> bool:
            found = await outside.execute("SELECT FROM workers WHERE starved_for_seconds >= lease_seconds")
            return bool(await found.fetchall())

        assert worker._live()["pool"]
        async with database.connection():
            waiting = asyncio.create_task(database.ping())
            await until(starved)
            assert not worker._live()["pool"]

        await waiting
        assert worker._live()["pool"]


async def test_an_outage_of_postgres_starves_no_worker(settings: Settings, queues: MessageQueues) -> None:
    """Otherwise it would restart the whole fleet, and end handlers that could settle after it."""
    address = urlsplit(settings.database_url)
    async with cable_to("127.0.0.1", address.port or 5432) as cable:
        cabled = settings.model_copy(update={"database_url": at_port(settings.database_url, cable.port)})
        async with (
            Database(cabled.database, "test", size=1) as database,
            beating(cabled, database, queues) as worker,
        ):
            await database.ping()
            cable.silent = True
            waiting = asyncio.create_task(database.ping())
            await until(lambda: database.unanswered_for() > 3 * settings.lease_seconds)

            assert worker._live()["pool"]
            cable.silent = False
            waiting.cancel()


async def test_a_worker_without_tables_is_not_ready_and_says_what_to_do(
    settings: Settings, database: Database, queues: MessageQueues, superuser: Database
) -> None:
    async with (
        Database(as_worker(settings).database, "worker", size=1, first=ADVANCE) as own,
        beating(settings, own, queues) as worker,
    ):
        assert await worker._ready() == {"postgres": True, "redis": True, "handler": True}
        await superuser.fetch("ALTER TABLE turnstile_version RENAME TO hidden", {})

        assert (await worker._ready())["postgres"] == "the database has no tables: run `turnstile migrate`"
