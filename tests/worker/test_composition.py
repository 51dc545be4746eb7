"""What a worker's heartbeat writes into the registry, and what it counts from its start."""

import importlib.metadata
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg

from tests.support.metric_readings import reading
from tests.support.probes import until, wait_until
from tests.support.processors import ECHO
from turnstile import distribution
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.worker.composition import TurnWork
from turnstile.worker.lifecycle.shutdown import Shutdown
from turnstile.worker.resources import Resources


@asynccontextmanager
async def at_work(
    settings: Settings, database: Database, queues: MessageQueues, *, deaf_for: float = 0.0
) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        address = await queues.find(settings.queue)
        resources = Resources.open(stack, settings, ECHO, "worker-a", database, queues, address, None)
        work = TurnWork(
            resources, Shutdown(), is_full=lambda: False, nudge_relay=lambda: None, deaf_for=lambda: deaf_for
        )
        work.start()
        stack.push_async_callback(work.end, 10.0)
        yield


async def test_the_registry_has_versions_and_lease_and_for_how_long_no_receive_has_returned(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    async def registered() -> list[dict[str, Any]]:
        return await database.fetch(
            "SELECT worker_id, version, release, deaf_for_seconds, lease_seconds FROM workers", {}
        )

    async with at_work(settings.model_copy(update={"release": "r7"}), database, queues, deaf_for=300.0):
        assert await until(registered) == [
            {
                "worker_id": "worker-a",
                "version": importlib.metadata.version(distribution.NAME),
                "release": "r7",
                "deaf_for_seconds": 300.0,
                "lease_seconds": settings.lease_seconds,
            }
        ]


async def test_the_registry_has_for_how_long_the_event_loop_is_blocked_while_it_is(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    blocked = "SELECT FROM workers WHERE blocked_for_seconds > 1"
    free = "SELECT FROM workers WHERE blocked_for_seconds = 0"

    async with at_work(settings, database, queues):
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            # On the event loop's thread, which this blocks.
            wait_until(lambda: connection.execute(blocked).fetchall())

        assert await until(lambda: database.fetch(free, {}))


async def test_no_thread_of_its_own_outlasts_it(settings: Settings, database: Database, queues: MessageQueues) -> None:
    """A Lambda function makes one for each invocation, in one process."""
    before = set(threading.enumerate())

    def own() -> list[threading.Thread]:
        return [one for one in set(threading.enumerate()) - before if one.name in ("heartbeat", "blocked loop")]

    async with at_work(settings, database, queues):
        assert len(own()) == 2

    await until(lambda: not own())


async def test_what_an_alert_counts_is_0_before_it_is_1(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    """Prometheus sees no increase in a series that begins with its first event: that event would alert nobody."""
    async with AsyncExitStack() as stack:
        address = await queues.find(settings.queue)
        own = replace(address, name="unheard of")
        resources = Resources.open(stack, settings, ECHO, "worker-a", database, queues, own, None)
        work = TurnWork(resources, Shutdown(), is_full=lambda: False, nudge_relay=lambda: None, deaf_for=lambda: 0.0)

        work.start()
        stack.push_async_callback(work.end, 10.0)

        counted = ("messages_malformed", "takeovers", "leases_lost", "event_loop_blocked_seconds")
        assert [reading(f"turnstile_{name}_total", queue="unheard of") for name in counted] == [0.0] * 4
