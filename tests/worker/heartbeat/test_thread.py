"""The heartbeat's thread: it registers the worker, no failed beat ends it, and a stop does."""

import asyncio
from typing import Any

from tests.support.heartbeats import Beating, lease_of
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_a_worker_is_registered_until_it_stops(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    beating = Beating(settings, queues, await queues.find(settings.queue))
    beating.heartbeat.start()

    async def on_record() -> list[dict[str, Any]]:
        return await database.fetch("SELECT worker_id, queue, slots, queue_latency_seconds FROM workers", {})

    assert await until(on_record) == [
        {"worker_id": "worker-a", "queue": settings.queue, "slots": 4, "queue_latency_seconds": 0.5}
    ]
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
    assert await on_record() == []
    assert not beating.heartbeat._thread.is_alive()


async def test_a_failed_beat_does_not_end_the_thread(database: Database, beating: Beating, turn: ClaimedTurn) -> None:
    """Without the thread, every turn of the process would silently lose its lease."""
    beating.trouble.append(RuntimeError("a bug of ours"))
    beating.keep(turn)
    await until(lambda: not beating.trouble)
    before = await lease_of(database)

    async def renewed() -> bool:
        return bool(await lease_of(database) > before)

    await until(renewed, within=10.0)
