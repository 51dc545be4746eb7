"""Children of a parent that runs again: those that succeeded or still run are kept, failed ones start again after a redrive."""

from tests.worker.attempt.child_turns import FAILURE, RETRY, Family
from turnstile.statements.revive import revive
from turnstile.statements.submit import Accepted, Submission
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace


async def test_a_redriven_parent_keeps_its_children_except_the_failed_ones(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    good, bad, slow = [await family.start(run, key=key) for key in ("good", "bad", "slow")]
    await family.end(good)
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)

    again = family.run(redriven := await family.redrive(parent))
    later = [await family.start(again, key=key) for key in ("good", "bad", "slow")]

    assert (later[0], later[2]) == (good, slow)
    assert later[1].id != bad.id
    assert await family.start(family.run(redriven), key="bad") == later[1]


async def test_a_child_that_was_redriven_during_the_run_is_not_started_again(
    family: Family, parent: ClaimedTurn
) -> None:
    bad = await family.start(family.run(parent), key="bad")
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)
    run = family.run(await family.redrive(parent))
    await family.start(run, key="before")
    await revive(family.database, [(bad.id, 1)], [start_trace(2)], expires_in_seconds=[900.0], resend_seconds=60.0)

    assert await family.start(run, key="bad") == bad


async def test_a_child_that_is_redriven_while_its_call_starts_again_is_the_only_one_at_work(
    family: Family, parent: ClaimedTurn
) -> None:
    bad = await family.start(family.run(parent), key="bad")
    await family.end(bad, FAILURE)
    await family.settle(parent, FAILURE)

    run = family.run(await family.redrive(parent))
    accept = run._intake.accept

    async def overtaken(submission: Submission) -> Accepted:
        await revive(family.database, [(bad.id, 1)], [start_trace(2)], expires_in_seconds=[900.0], resend_seconds=60.0)
        return await accept(submission)

    run._intake.accept = overtaken  # type: ignore[method-assign]
    assert await family.start(run, key="bad") == bad


async def test_a_retry_keeps_a_child_that_failed(family: Family, parent: ClaimedTurn) -> None:
    child = await family.start(family.run(parent), key="bad")
    await family.end(child, FAILURE)
    await family.settle(parent, RETRY)

    assert await family.start(family.run(await family.claim()), key="bad") == child
