"""A dead wake-up, whose turn has ended, goes past a worker that is full: its message is deleted, and it takes no slot.

After the cancel of a tenant's flood, thousands of them are in the queue before the messages of others.
"""

import asyncio
from typing import Any

from tests.support.claims import submit_turns
from tests.support.probes import until
from tests.support.processors import Noting, message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.statements.cancel import CancelReason, cancel
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

DEAD = 20


async def test_dead_wake_ups_are_deleted_while_all_slots_are_busy(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    may_end = asyncio.Event()
    began: list[str] = []

    async def handle(turn: Turn, _: Any) -> None:
        began.append(turn.session_id)
        await may_end.wait()

    slots, queues = Slots(1), Noting()
    [running] = await submit_turns(database, settings, "hi", session_id="running")
    dead = []
    for number in range(DEAD):
        [turn_id] = await submit_turns(database, settings, "flood", session_id=f"flood-{number}")
        await cancel(database, "t", turn_id, CancelReason.USER)
        dead.append(message_about(turn_id, f"flood-{number}"))

    with processing(settings, database, lock, "w", Handler(handle), queues=queues, slots=slots) as processor:
        working = asyncio.create_task(processor.process(message_about(running, "running")))
        await until(lambda: began)
        async with asyncio.timeout(30):
            await asyncio.gather(*(processor.process(message) for message in dead))

        assert sorted(one.message_id for one in queues.deleted) == sorted(one.message_id for one in dead)
        assert (began, slots.busy) == (["running"], 1)
        may_end.set()
        await working
