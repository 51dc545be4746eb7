"""Waking a parent that waits for its children: by a worker, after a settle; children that end together, and a parent that runs
again meanwhile."""

import asyncio
from uuid import UUID

import pytest
import structlog.testing

from tests.support.claims import submit_turns
from tests.support.probes import until
from tests.support.row_locks import rows_locked
from tests.support.session_runs import new_run
from tests.worker.attempt.child_turns import PARENT, RETRY, Family
from turnstile.backends.postgres.database import Database
from turnstile.handlers.child import Child
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt_observer import SettledAttempt
from turnstile.worker.parent_waking import ParentWaking

ANSWER = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="done")


class Worker:
    """What a worker does after its settles. Its `nudges` say how often it has notified the relay of a parent that is due."""

    def __init__(self, family: Family) -> None:
        self.nudges = 0
        self._family = family
        self._waking = ParentWaking(family.database, self._nudge)

    async def settle(self, turn: ClaimedTurn, settlement: Settlement) -> bool:
        """Whether it has looked after a parent."""
        status = await self._family.settle(turn, settlement)
        self.note(turn, status, settlement)
        looks = bool(self._waking._under_way)
        await until(lambda: not self._waking._under_way)
        return looks

    def note(self, turn: ClaimedTurn, status: TurnStatus, settlement: Settlement) -> None:
        attempt = SettledAttempt(turn=turn, settlement=settlement, status=status, reply=None, seconds=0.0, more=False)
        self._waking.settled(new_run(), attempt)

    def _nudge(self) -> None:
        self.nudges += 1


@pytest.fixture
async def worker(family: Family) -> Worker:
    return Worker(family)


async def test_a_settle_wakes_the_parent_of_a_child_that_has_ended_and_not_of_one_that_is_retried(
    family: Family, parent: ClaimedTurn, worker: Worker
) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)

    assert not await worker.settle(await family.claim(child.session_id), RETRY)
    assert (worker.nudges, (await family.row(parent.id))["due"]) == (0, False)

    assert await worker.settle(await family.claim(child.session_id), ANSWER)
    assert (worker.nudges, (await family.row(parent.id))["due"]) == (1, True)


async def test_a_settle_wakes_a_parent_whose_children_had_ended_before(
    family: Family, parent: ClaimedTurn, worker: Worker
) -> None:
    child = await family.start(family.run(parent))
    await family.end(child)
    joining = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
        joining=(child.id,), join_policy=JoinPolicy.ALL,
    )  # fmt: skip

    await worker.settle(parent, joining)

    assert (worker.nudges, (await family.row(parent.id))["due"]) == (1, True)


async def test_a_parent_that_can_not_be_woken_is_logged(
    family: Family, parent: ClaimedTurn, worker: Worker, superuser: Database
) -> None:
    """The relay's scan finds it."""
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    ended = await family.claim(child.session_id)
    status = await family.settle(ended, ANSWER)
    await superuser.fetch("ALTER TABLE turns RENAME TO turns_elsewhere", {})

    with structlog.testing.capture_logs() as lines:
        worker.note(ended, status, ANSWER)
        await until(lambda: not worker._waking._under_way)

    assert [(line["event"], line["turn_id"]) for line in lines] == [("join.not_looked_at", str(parent.id))]
    assert worker.nudges == 0


async def test_of_children_that_end_together_one_wakes_the_parent(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run) for _ in range(8)]
    await family.join(parent, *children)

    async def end(child: Child) -> dict[UUID, str]:
        await family.end(child)
        return await wake_parents(family.database, [parent.id])

    woken = await asyncio.gather(*[end(child) for child in children])

    assert sum(map(len, woken)) == 1


@pytest.mark.parametrize("by", ["a child's worker", "the relay"])
async def test_a_locked_parent_delays_no_other(family: Family, parent: ClaimedTurn, by: str) -> None:
    await submit_turns(family.database, family.settings, "two", session_id="other")
    other = await family.claim("other")
    for each in (parent, other):
        child = await family.start(family.run(each))
        await family.join(each, child)
        await family.end(child)

    async def wake() -> set[UUID]:
        if by == "the relay":
            return set(await wake_joined(family.database))
        return set(await wake_parents(family.database, [parent.id, other.id]))

    with rows_locked(family.settings, f"session_id = '{PARENT}'"):
        assert await wake() == {other.id}

    assert await wake() == {parent.id}


async def test_a_parent_that_runs_again_is_not_woken(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent))
    await family.join(parent, child)
    await family.database.fetch("UPDATE turns SET execute_at = now() WHERE id = %(id)s", {"id": parent.id})
    running = await family.claim()

    await wake_joined(family.database)

    row = await family.row(parent.id)
    assert (row["status"], row["fence"], row["joining"], row["send_at"]) == ("RUNNING", running.fence, None, None)
