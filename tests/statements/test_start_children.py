"""Recorded values, children, joins and compensations."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import (
    FAILURE,
    JOIN,
    MAX_CRASHES,
    RETRY,
    SUCCESS,
    claimed,
    pass_lease,
    row_of,
    said,
    submit_one,
    terms,
)
from tests.statements.family_calls import COMPENSATES, child_of, compensation_of, end, parent_of, start_child
from tests.statements.store import Store
from tests.support.factories import make_claim
from turnstile.errors import ChildIdTakenError, ParentSupersededError
from turnstile.statements.cancel import CancelReason, cancel
from turnstile.statements.claim import claim
from turnstile.statements.join import wake_joined, wake_parents
from turnstile.statements.once_values import RecordedValue, read_values, record_value
from turnstile.statements.start_children import (
    ChildState,
    KnownChild,
    make_child_id,
    read_children,
    read_depth,
    read_outputs,
    read_states,
    was_started_by,
)
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus

# --- values


async def test_a_value_is_written_once(store: Store) -> None:
    turn = await parent_of(store)

    first = await record_value(store.database, turn, "k", '{"a": [1, null]}')
    second = await record_value(store.database, turn, "k", '"other"')

    assert first == second == RecordedValue({"a": [1, None]})
    assert await read_values(store.database, turn) == {"k": {"a": [1, None]}}


async def test_a_claim_that_has_ended_records_no_value(store: Store) -> None:
    turn = await parent_of(store)
    await record_value(store.database, turn, "k", "1")
    await end(store, turn, RETRY)

    assert await record_value(store.database, turn, "k", "1") is None
    assert await record_value(store.database, turn, "l", "1") is None
    assert await read_values(store.database, turn) == {"k": 1}


# --- children


async def test_a_child_is_found_by_its_key(store: Store) -> None:
    parent = await parent_of(store)
    child = await child_of(store, parent, "k")

    assert await read_children(store.database, parent.id) == {
        "k": KnownChild(child.turn_id, "child-k", TurnStatus.PENDING)
    }
    row = await row_of(store, child.turn_id)
    assert (row["parent_turn_id"], row["child_key"], row["kind"]) == (parent.id, "k", "turn")


async def test_the_depth_of_a_turn_is_the_number_of_its_ancestors_up_to_a_bound(store: Store) -> None:
    root = await parent_of(store)
    turn = root
    for key in "abc":
        child = await child_of(store, turn, key)
        turn = await claimed(store, session_id=child.session_id)

    assert [await read_depth(store.database, turn.id, most) for most in (2, 3, 9)] == [2, 3, 3]
    assert await read_depth(store.database, root.id, 9) == 0


async def test_a_child_that_was_started_before_is_found_again(store: Store) -> None:
    parent = await parent_of(store)
    child = await child_of(store, parent, "k")

    again = await start_child(store, parent, "k", turn_id=child.turn_id)

    assert (again.turn_id, again.replayed) == (child.turn_id, False)


@pytest.mark.parametrize("tenant_id", ["t", "other"])
async def test_a_child_does_not_become_a_turn_that_has_its_id(store: Store, tenant_id: str) -> None:
    parent = await parent_of(store)
    stranger = uuid4()
    await submit_one(store, session_id="stranger", tenant_id=tenant_id, turn_id=stranger)

    refused = await start_child(store, parent, "k", turn_id=stranger)

    assert isinstance(refused, ChildIdTakenError)
    assert str(stranger) in str(refused)
    assert await read_children(store.database, parent.id) == {}


async def test_a_child_does_not_become_the_child_of_another_call(store: Store) -> None:
    parent = await parent_of(store)
    other = await child_of(store, parent, "other")

    assert isinstance(await start_child(store, parent, "k", turn_id=other.turn_id), ChildIdTakenError)


async def test_the_id_of_a_child_can_be_predicted_only_with_the_span_of_its_parent(store: Store) -> None:
    parent = await parent_of(store)
    known = (parent.id, parent.created_at)

    made = {make_child_id(*known, span, 1, "k") for span in (parent.span_id, "0" * 16, "1" * 16)}

    assert len(made) == 3
    assert make_child_id(*known, parent.span_id, 1, "k") == make_child_id(*known, parent.span_id, 1, "k")
    assert all(was_started_by(one, parent.created_at) for one in made)
    assert not any(was_started_by(one, parent.created_at - timedelta(milliseconds=2)) for one in made)


async def test_a_parent_whose_claim_has_ended_starts_no_child(store: Store) -> None:
    parent = await parent_of(store)
    await end(store, parent, RETRY)

    assert isinstance(await start_child(store, parent, "k"), ParentSupersededError)
    assert await read_children(store.database, parent.id) == {}


async def test_the_claim_of_a_child_names_its_parent(store: Store) -> None:
    parent = await parent_of(store)
    await child_of(store, parent, "k")

    assert (await claimed(store, session_id="child-k")).parent_turn_id == parent.id


async def test_a_parent_reads_the_states_and_outputs_of_its_own_children_only(store: Store) -> None:
    parent = await parent_of(store)
    good, bad = await child_of(store, parent, "good"), await child_of(store, parent, "bad")
    await end(store, await claimed(store, session_id="child-good"), SUCCESS)
    await end(store, await claimed(store, session_id="child-bad"), FAILURE)

    ids = [good.turn_id, bad.turn_id, parent.id]
    assert await read_states(store.database, parent.id, ids) == {
        good.turn_id: ChildState(TurnStatus.SUCCEEDED),
        bad.turn_id: ChildState(TurnStatus.FAILED, "Boom", "boom"),
    }
    assert await read_outputs(store.database, "t", dict.fromkeys(ids, "s")) == {good.turn_id: {"say": "hi"}}


# --- joins


async def wait_for(store: Store, parent: ClaimedTurn, *children: UUID, policy: JoinPolicy = JoinPolicy.ALL) -> None:
    await end(store, parent, replace(JOIN, joining=children, join_policy=policy))


@pytest.mark.parametrize("policy", JoinPolicy)
@pytest.mark.parametrize(
    ("first", "second"),
    [(SUCCESS, None), (FAILURE, None), (SUCCESS, SUCCESS), (None, None)],
)
async def test_a_parent_is_woken_when_its_join_is_over(
    store: Store, policy: JoinPolicy, first: Settlement | None, second: Settlement | None
) -> None:
    parent = await parent_of(store)
    children = [await child_of(store, parent, key) for key in "ab"]
    await wait_for(store, parent, *[child.turn_id for child in children], policy=policy)
    await store.pass_time(1)
    for key, settlement in zip("ab", (first, second), strict=True):
        if settlement is not None:
            await end(store, await claimed(store, session_id=f"child-{key}"), settlement)
    ended = [one for one in (first, second) if one is not None]
    early = FAILURE if policy is JoinPolicy.ALL else SUCCESS
    over = len(ended) == 2 or early in ended

    woken = await wake_parents(store.database, [parent.id, parent.id, uuid4()])

    assert woken == ({parent.id: parent.trace_id} if over else {})
    row = await row_of(store, parent.id)
    assert (row["joining"] is None) is over
    assert (row["execute_at"] - row["created_at"]).total_seconds() == (1 if over else 900)
    assert await wake_joined(store.database) == []


async def test_the_join_of_a_cancelled_parent_is_cleared_and_nothing_else_changes(store: Store) -> None:
    parent = await parent_of(store)
    child = await child_of(store, parent, "k")
    await wait_for(store, parent, child.turn_id)
    await cancel(store.database, "t", parent.id, CancelReason.USER)

    assert await wake_joined(store.database) == [parent.id]
    row = await row_of(store, parent.id)
    assert (row["status"], row["joining"], row["join_policy"], row["send_at"]) == ("CANCELED", None, None, None)


async def test_a_settle_other_than_a_join_ends_the_join(store: Store) -> None:
    parent = await parent_of(store)
    child = await child_of(store, parent, "k")
    await wait_for(store, parent, child.turn_id)
    await store.pass_time(900)
    again = await claimed(store, session_id="parent")

    await end(store, again, RETRY)

    assert (await row_of(store, parent.id))["joining"] is None


# --- compensations


async def test_a_settle_that_fails_creates_a_compensation(store: Store) -> None:
    turn = await parent_of(store)
    await record_value(store.database, turn, "k", '{"b": 1}')
    await store.pass_time(3)

    await end(store, turn, FAILURE, COMPENSATES)

    [row] = await compensation_of(store, turn.id)
    assert (row["kind"], row["status"], row["seq"]) == ("compensation", "PENDING", 1)
    assert (row["trace_id"], row["parent_span_id"]) == (turn.trace_id, turn.span_id)
    assert (row["expires_at"] - row["created_at"]).total_seconds() == 50
    assert row["id"].version == 7
    [(role, content)] = await said(store, row["id"])
    assert role == "user"
    assert content == {
        "turn_id": str(turn.id), "session_id": "parent", "generation": 1, "error_class": "Boom", "error": "boom",
        "inputs": ["hello"], "values": {"k": {"b": 1}},
    }  # fmt: skip


async def test_the_claim_of_a_compensation_names_its_turn_and_it_has_no_compensation_itself(store: Store) -> None:
    turn = await parent_of(store)
    await end(store, turn, FAILURE, COMPENSATES)
    [row] = await compensation_of(store, turn.id)
    undoing = await claimed(store, session_id=row["session_id"])
    assert (undoing.kind, undoing.parent_turn_id) == ("compensation", turn.id)

    await end(store, undoing, FAILURE, COMPENSATES)

    assert await compensation_of(store, undoing.id) == []


@pytest.mark.parametrize(("settlement", "by"), [(FAILURE, terms()), (RETRY, COMPENSATES), (SUCCESS, COMPENSATES)])
async def test_a_settle_that_does_not_fail_or_without_a_hook_creates_none(
    store: Store, settlement: Settlement, by: Any
) -> None:
    turn = await parent_of(store)

    await end(store, turn, settlement, by)

    assert await compensation_of(store, turn.id) == []


async def test_a_cancelled_turn_has_no_compensation(store: Store) -> None:
    turn = await parent_of(store)
    await cancel(store.database, "t", turn.id, CancelReason.USER)

    await end(store, turn, FAILURE, COMPENSATES)

    assert await compensation_of(store, turn.id) == []


async def test_the_claim_that_ends_a_crash_loop_creates_the_compensation(store: Store) -> None:
    turn = await parent_of(store)
    for _ in range(MAX_CRASHES):
        await pass_lease(store)
        await claim(store.database, COMPENSATES, [make_claim("parent")])

    row = await row_of(store, turn.id)
    assert (row["status"], row["error_class"]) == ("FAILED", "crash_loop")
    [made] = await compensation_of(store, turn.id)
    [(_, content)] = await said(store, made["id"])
    assert (content["error_class"], content["error"]) == ("crash_loop", "its worker was lost in attempt 3")


async def test_the_id_of_a_compensation_is_made_of_more_than_another_tenant_may_know(store: Store) -> None:
    turn = await parent_of(store)
    known = hashlib.sha256(f"compensation/{turn.id}/{turn.generation}".encode()).hexdigest()

    await end(store, turn, FAILURE, COMPENSATES)

    [row] = await compensation_of(store, turn.id)
    assert row["id"].hex[13:16] + row["id"].hex[17:] != known[:18]


async def test_a_repeated_settle_creates_one_compensation(store: Store) -> None:
    turn = await parent_of(store)

    await end(store, turn, FAILURE, COMPENSATES)
    await end(store, turn, FAILURE, COMPENSATES)

    assert len(await compensation_of(store, turn.id)) == 1


async def test_a_superseded_settle_creates_no_compensation(store: Store) -> None:
    late = await parent_of(store)
    await pass_lease(store)
    (successor,) = await claim(store.database, COMPENSATES, [make_claim("parent")])
    assert isinstance(successor, ClaimedTurn)

    await end(store, late, FAILURE, COMPENSATES)

    assert await compensation_of(store, late.id) == []
