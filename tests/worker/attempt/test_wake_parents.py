"""Waking a parent that waits for its children: races between ends, and joins that the relay finds."""

import asyncio
from typing import cast
from uuid import UUID

from tests.worker.attempt.child_turns import Family, NoQueues
from turnstile.config.settings import Settings
from turnstile.handlers.child import Child
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import CancelReason, cancel
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_a_waiting_parent_is_due_at_its_expiry_and_not_before(family: Family, parent: ClaimedTurn) -> None:
    await family.join(parent, await family.start(family.run(parent)))

    row = await family.row(parent.id)
    assert (row["status"], row["attempt"], row["due"]) == ("PENDING", 0, False)
    assert row["send_at"] >= row["execute_at"]


async def test_of_children_that_end_together_one_wakes_the_parent(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run) for _ in range(8)]
    await family.join(parent, *children)

    async def end(child: Child) -> list[UUID]:
        await family.end(child)
        return await wake_parents(family.database, [parent.id])

    woken = await asyncio.gather(*[end(child) for child in children])

    assert sum(map(len, woken)) == 1


async def test_the_relay_finds_a_join_whose_end_woke_no_parent(
    family: Family, parent: ClaimedTurn, settings: Settings, no_queues: NoQueues
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await cancel(family.database, "t", child.id, CancelReason.USER)

    await Relay(family.database, cast("MessageQueues", no_queues), settings).round()

    assert (await family.row(parent.id))["due"]


async def test_a_parent_that_runs_again_is_not_woken(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.id})
    running = await family.claim()

    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["fence"], row["joining"], row["send_at"]) == ("RUNNING", running.fence, None, None)
