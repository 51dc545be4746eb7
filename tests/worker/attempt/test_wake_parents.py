"""Waking a parent that waits for its children: children that end together, and a parent that runs again meanwhile."""

import asyncio
from uuid import UUID

from tests.worker.attempt.child_turns import Family
from turnstile.handlers.child import Child
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_of_children_that_end_together_one_wakes_the_parent(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run) for _ in range(8)]
    await family.join(parent, *children)

    async def end(child: Child) -> dict[UUID, str]:
        await family.end(child)
        return await wake_parents(family.database, [parent.id])

    woken = await asyncio.gather(*[end(child) for child in children])

    assert sum(map(len, woken)) == 1


async def test_a_parent_that_runs_again_is_not_woken(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.id})
    running = await family.claim()

    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["fence"], row["joining"], row["send_at"]) == ("RUNNING", running.fence, None, None)
