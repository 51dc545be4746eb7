"""`ctx.join`: it ends the attempt while a child is open, and returns the replies or raises the failure."""

import pytest
import redis.asyncio

from tests.support.claims import submit_turns
from tests.support.probes import until
from tests.support.redis_hands import OwnCancelHints
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
    with pytest.raises(ValueError, match="at least one child"):
        await family.run(parent).join([], "any")


async def test_a_join_of_a_turn_that_is_not_a_child_is_refused(family: Family, parent: ClaimedTurn) -> None:
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


async def test_a_failure_leaves_the_open_children_at_work_unless_the_join_cancels_them(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)
    waits, bad, runs, good = [await family.start(run, key=key) for key in ("waits", "bad", "runs", "good")]
    await family.end(bad, FAILURE)
    await family.end(good)
    await family.claim(runs.session_id)
    children = [waits, bad, runs, good]

    with pytest.raises(ChildFailedError):
        await run.join(children)
    assert [(await family.row(child.id))["cancel_reason"] for child in children] == [None] * 4
    with pytest.raises(ChildFailedError) as failed:
        await run.join(children, on_failure="cancel")

    assert failed.value.child == bad
    rows = [await family.row(child.id) for child in children]
    assert [(row["status"], row["cancel_reason"]) for row in rows] == [
        ("CANCELED", "parent"), ("FAILED", None), ("RUNNING", "parent"), ("SUCCEEDED", None),
    ]  # fmt: skip


async def test_a_later_run_names_the_child_that_failed_and_not_one_that_was_cancelled_for_it(
    family: Family, parent: ClaimedTurn
) -> None:
    children = [await family.start(family.run(parent), key=key) for key in ("waits", "bad")]
    await family.end(children[1], FAILURE)

    for _ in range(2):
        with pytest.raises(ChildFailedError) as failed:
            await family.run(parent).join(children, on_failure="cancel")
        assert (failed.value.child, failed.value.status) == (children[1], "FAILED")


async def test_a_join_cancels_no_child_that_it_does_not_join_and_none_while_it_can_end_well(
    family: Family, parent: ClaimedTurn
) -> None:
    run = family.run(parent)
    bad, other, unjoined = [await family.start(run, key=key) for key in ("bad", "other", "unjoined")]
    await family.end(bad, FAILURE)

    with pytest.raises(JoinPending):
        await run.join([bad, other], "any", on_failure="cancel")
    assert (await family.row(other.id))["status"] == "PENDING"
    with pytest.raises(ChildFailedError):
        await run.join([bad, other], on_failure="cancel")

    assert [(await family.row(child.id))["status"] for child in (other, unjoined)] == ["CANCELED", "PENDING"]


async def test_the_worker_of_a_cancelled_child_is_notified_and_its_session_goes_on(
    family: Family, parent: ClaimedTurn, hints: OwnCancelHints, keys: redis.asyncio.Redis
) -> None:
    run = family.run(parent)
    bad, waits = await family.start(run, key="bad"), await family.start(run, key="waits", session="shared")
    runs = await family.start(run, key="runs")
    await submit_turns(family.database, family.settings, "behind", session_id="shared")
    await family.end(bad, FAILURE)
    await family.claim(runs.session_id)
    heard = keys.pubsub()
    await heard.psubscribe("*hints:cancel")

    with pytest.raises(ChildFailedError):
        await run.join([bad, waits, runs], on_failure="cancel")

    async def notified() -> bool:
        message = await heard.get_message(ignore_subscribe_messages=True)
        return message is not None and message["data"] in (str(runs.id), str(runs.id).encode())

    await until(notified)
    await heard.aclose()  # type: ignore[no-untyped-call]
    due = await family.database.fetch(
        "SELECT send_at <= clock_timestamp() + interval '1 s' AS soon FROM turns WHERE session_id = 'shared' AND seq = 2",
        {},
    )
    assert [row["soon"] for row in due] == [True]


async def test_a_join_that_knows_no_such_way_is_refused(family: Family, parent: ClaimedTurn) -> None:
    run = family.run(parent)

    with pytest.raises(ValueError, match="OnFailure"):
        await run.join([await family.start(run)], on_failure="explode")
