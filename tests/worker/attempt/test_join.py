"""`ctx.join`: it ends the attempt while a child is open, and returns the replies or raises the failure."""

import pytest

from tests.support.claims import submit_turns
from tests.worker.attempt.child_turns import FAILURE, Family
from turnstile.handlers.child import Child, ChildFailedError
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.outcome import JoinPending


async def test_a_join_of_open_children_ends_the_attempt(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    children = [await family.start(run), await family.start(run)]

    with pytest.raises(JoinPending) as pending:
        await run.join(children, "all")

    assert pending.value.children == tuple(child.id for child in children)


async def test_a_join_of_no_children_returns_at_once(family: Family, parent: ClaimedTurn) -> None:
    assert await family.run(parent).join([], "all") == []


async def test_a_join_that_can_never_end_is_refused(family: Family, parent: ClaimedTurn) -> None:
    with pytest.raises(ValueError, match="no child"):
        await family.run(parent).join([], "any")


async def test_a_join_of_a_turn_that_is_no_child_is_refused(family: Family, parent: ClaimedTurn) -> None:
    await submit_turns(family.database, family.settings, "other", session_id="other")
    stranger = await family.claim("other")

    with pytest.raises(ValueError, match=str(stranger.id)):
        await family.run(parent).join([Child(stranger.id, "other", "#1")], "all")


async def test_a_failed_child_raises_its_reason(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)
    child = await family.start(run, key="bad")
    await family.end(child, FAILURE)

    with pytest.raises(ChildFailedError) as failed:
        await run.join([child], "all")

    assert (failed.value.child, failed.value.status, failed.value.error_class) == (child, "FAILED", "Boom")


async def test_a_join_of_any_child_returns_a_reply_and_raises_if_none_can_come(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)
    bad, worse, good = [await family.start(run, key=key) for key in ("bad", "worse", "good")]
    await family.end(bad, FAILURE)
    await family.end(worse, FAILURE)
    await family.end(good)

    assert await run.join([bad, good], "any") == [None, "reply of good"]
    with pytest.raises(ChildFailedError):
        await run.join([bad, worse], "any")
