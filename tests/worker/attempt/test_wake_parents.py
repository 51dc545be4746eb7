"""Waking a parent that waits for its children: once, and when its join is over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast
from uuid import UUID

import pytest

from tests.support.families import Family, NoQueues
from turnstile.config.settings import Settings
from turnstile.handlers.child import Child
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import CancelReason, cancel
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import JoinPolicy


async def test_a_waiting_parent_is_due_at_its_expiry_and_not_before(family: Family, parent: ClaimedTurn) -> None:
    await family.join(parent, await family.start(family.run(parent)))

    row = await family.row(parent.id)
    assert (row["status"], row["attempt"], row["due"]) == ("PENDING", 0, False)
    assert row["send_at"] >= row["execute_at"]


@pytest.mark.parametrize(
    "wake",
    [lambda database, parent: wake_parents(database, [parent]), lambda database, _: wake_joined(database)],
    ids=["told", "found"],
)
async def test_the_last_child_makes_its_parent_due(
    family: Family, parent: ClaimedTurn, wake: Callable[..., Awaitable[list[UUID]]]
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.end(child)

    assert await wake(family.database, parent.id) == [parent.id]

    row = await family.row(parent.id)
    assert (row["joining"], row["join_policy"], row["due"], row["sends"]) == (None, None, True, 0)
    assert await family.run(await family.claim()).join([child], "all") == ["reply of #1"]


async def test_of_two_children_that_end_together_one_wakes_the_parent(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run) for _ in range(8)]
    await family.join(parent, *children)

    async def end(child: Child) -> list[UUID]:
        await family.end(child)
        return await wake_parents(family.database, [parent.id])

    woken = await asyncio.gather(*[end(child) for child in children])

    assert sum(map(len, woken)) == 1


async def test_a_child_that_ended_before_its_parent_waited_is_seen_by_the_parents_own_look(
    family: Family, parent: ClaimedTurn
) -> None:
    child = await family.start(family.run(parent))
    await family.end(child)
    assert await wake_parents(family.database, [parent.id]) == []

    await family.join(parent, child)

    assert await wake_parents(family.database, [parent.id]) == [parent.id]


@pytest.mark.parametrize(("policy", "wakes"), [(JoinPolicy.ALL, True), (JoinPolicy.ANY, False)])
async def test_a_cancelled_child_ends_all_and_leaves_any_waiting(
    family: Family, parent: ClaimedTurn, policy: JoinPolicy, wakes: bool
) -> None:
    run = family.run(parent)
    first, second = await family.start(run), await family.start(run)
    await family.join(parent, first, second, policy=policy)

    await cancel(family.database, "t", first.id, CancelReason.USER)

    assert (await wake_joined(family.database) == [parent.id]) is wakes


async def test_the_relay_finds_a_join_that_nobody_told_of(
    family: Family, parent: ClaimedTurn, settings: Settings, no_queues: NoQueues
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await cancel(family.database, "t", child.id, CancelReason.USER)

    await Relay(family.database, cast("MessageQueues", no_queues), settings).round()

    assert (await family.row(parent.id))["due"]


async def test_a_cancelled_parent_waits_for_nobody_and_its_children_go_on(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)

    await cancel(family.database, "t", parent.id, CancelReason.USER)
    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["joining"], row["send_at"]) == ("CANCELED", None, None)
    assert (await family.row(child.id))["status"] == "PENDING"


async def test_a_parent_that_was_claimed_meanwhile_is_left_running(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.id})
    running = await family.claim()

    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["fence"], row["joining"], row["send_at"]) == ("RUNNING", running.fence, None, None)


async def test_a_cancel_that_meets_a_join_wins(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await cancel(family.database, "t", parent.id, CancelReason.USER)

    await family.join(parent, child)

    row = await family.row(parent.id)
    assert (row["status"], row["joining"]) == ("CANCELED", None)
