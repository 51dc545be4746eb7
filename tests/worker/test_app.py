"""The worker process, as it puts its parts together."""

from contextlib import AsyncExitStack

from tests.support.probes import until
from tests.support.processors import ECHO
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.worker.app import _Worker
from turnstile.worker.process.shutdown import Shutdown
from turnstile.worker.resources import Resources


async def test_a_worker_whose_polls_do_not_return_says_in_the_registry_that_it_is_deaf(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    async def says_so() -> bool:
        return bool(await database.fetch("SELECT FROM workers WHERE deaf_for_seconds > 0", {}))

    async with AsyncExitStack() as stack:
        address = await queues.find(settings.queue)
        resources = Resources.open(stack, settings, ECHO, "worker-a", database, queues, address)
        worker = _Worker(resources, Shutdown())
        # Its consumer is not run.
        worker.work.start()
        stack.push_async_callback(worker.work.end, 10.0)

        await until(says_so)
