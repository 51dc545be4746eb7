"""The heartbeat's thread: it registers the worker, no failed beat ends it, and a stop does."""

import asyncio
from typing import Any, LiteralString

import pytest
from structlog.testing import capture_logs

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


@pytest.mark.parametrize("table", ["workers", "paused_queues"])
async def test_the_beat_after_one_that_failed_comes_at_once(
    settings: Settings, database: Database, queues: MessageQueues, table: LiteralString, superuser: Database
) -> None:
    """The one after a beat that went well would be an hour away."""
    await superuser.fetch(f"ALTER TABLE {table} RENAME TO hidden", {})
    rare = settings.model_copy(update={"lease_seconds": 7200.0, "heartbeat_seconds": 3600.0})
    beating = Beating(rare, queues, await queues.find(settings.queue))
    with capture_logs() as lines:
        beating.heartbeat.start()
        await until(lambda: lines)

    await superuser.fetch(f"ALTER TABLE hidden RENAME TO {table}", {})

    async def went_well() -> bool:
        return bool(beating.paused and await database.fetch("SELECT FROM workers", {}))

    await until(went_well)
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
