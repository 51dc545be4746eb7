"""The relay alone, in a process of its own: `turns.relay.Relay` between start and the signal to stop."""

import asyncio
import signal

import structlog

from memory.watch import MemoryWatch
from turns.attention import tell_attention
from turns.backlog import tell_backlog
from turns.database import Database
from turns.message_queue import MessageQueues
from turns.relay import Relay
from turns.settings import Settings
from turns.trust import check_certificates
from turns.webhook_delivery import WebhookDelivery

log = structlog.get_logger("turnstile.relay")


async def run_relay(settings: Settings) -> None:
    """Runs until SIGTERM or Ctrl-C; the round under way is finished first, unless a second signal comes."""
    stopping = asyncio.Event()
    running = asyncio.current_task()

    def stop() -> None:
        if stopping.is_set() and running is not None:
            running.cancel()
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await check_certificates(settings)
    queues = MessageQueues(settings)
    memory_watch = MemoryWatch(settings)
    try:
        async with Database(settings.database_url, "turnstile-relay", size=2, pinned=True) as database:
            log.info("relay.started", queues=list(settings.queues_by_name))
            try:
                async with asyncio.TaskGroup() as together:
                    together.create_task(tell_backlog(database, list(settings.queues_by_name), stopping))
                    together.create_task(tell_attention(database, list(settings.queues_by_name), stopping))
                    together.create_task(memory_watch.run(stopping))
                    together.create_task(Relay(database, queues, settings).run(stopping))
                    if settings.webhook_hosts:
                        together.create_task(WebhookDelivery(database, settings).run(stopping))
            except ExceptionGroup as errors:
                # One of them ended the other: its own error is what the person is told.
                raise errors.exceptions[0] from None
            log.info("relay.stopped")
    finally:
        queues.close()
        await memory_watch.close()
