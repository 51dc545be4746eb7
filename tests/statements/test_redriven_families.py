"""Redrive and retry of children and of turns with a compensation."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from tests.statements.calls import FAILURE, RESEND_SECONDS, SUCCESS, claimed, row_of, terms
from tests.statements.family_calls import COMPENSATES, child_of, compensation_of, end, parent_of
from tests.statements.store import Store
from tests.support.factories import make_submission
from turnstile.ops.sessions.halted_session import read_halt, retry
from turnstile.statements.revive import REPLACED, find_compensated, read_generations, revive
from turnstile.statements.submit import ParentClaim, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace

# --- children that a redriven parent has started again


async def replaced_child(store: Store, by: Any = None) -> tuple[UUID, UUID]:
    """A child that FAILED under a parent that did too, and the successor that the redriven parent has started."""
    parent = await parent_of(store)
    child = await child_of(store, parent, "k")
    await end(store, await claimed(store, session_id="child-k"), FAILURE, by)
    await end(store, parent, FAILURE)
    await revived(store, parent.id)
    await store.pass_time(1)
    # In a session of its own: the child's may be halted.
    again = make_submission("turns", "again", parent=ParentClaim(parent.id, (await claim_parent(store)).fence, "k"))
    await submit(store.database, [again], resend_seconds=RESEND_SECONDS)
    return child.turn_id, again.turn_id


async def claim_parent(store: Store) -> ClaimedTurn:
    return await claimed(store, session_id="parent")


async def revived(store: Store, *failed: UUID) -> list[UUID]:
    wanted = [(turn_id, (await row_of(store, turn_id))["generation"]) for turn_id in failed]
    traces = [start_trace(1 << 64 | number) for number, _ in enumerate(failed, 1)]
    expires = [900.0] * len(failed)
    found = await revive(store.database, wanted, traces, expires_in_seconds=expires, resend_seconds=RESEND_SECONDS)
    return [one.message.wake_up.turn_id for one in found]


async def test_a_child_with_a_successor_is_not_redriven_and_the_successor_is(store: Store) -> None:
    child, successor = await replaced_child(store)
    await end(store, await claimed(store, session_id="again"), FAILURE)

    assert await revived(store, child, successor) == [successor]
    assert await read_generations(store.database, [child]) == {child: (1, REPLACED)}


async def test_a_failed_child_without_a_successor_is_redriven(store: Store) -> None:
    parent = await parent_of(store)
    for key in "ab":
        await child_of(store, parent, key)
    failed = await claimed(store, session_id="child-a")
    await end(store, failed, FAILURE)

    assert await read_generations(store.database, [failed.id]) == {failed.id: (1, "FAILED")}
    assert await revived(store, failed.id) == [failed.id]


async def test_a_child_with_a_successor_that_halts_its_session_is_not_retried(store: Store) -> None:
    child, _ = await replaced_child(store, terms(halt=True))

    resumed = await retry(store.database, child, start_trace(1), expires_in_seconds=900, requested_by="who")

    halt = await read_halt(store.database, child)
    assert resumed is None
    assert halt is not None
    assert (halt.halts, halt.replaced) == (True, True)


# --- turns whose compensation has not ended


async def test_a_turn_is_redriven_when_its_compensation_has_ended(store: Store) -> None:
    turn = await parent_of(store)
    await end(store, turn, FAILURE, COMPENSATES)
    [compensation] = await compensation_of(store, turn.id)

    assert await revived(store, turn.id) == []
    undoing = await claimed(store, session_id=compensation["session_id"])
    assert await revived(store, turn.id) == []
    assert await find_compensated(store.database, [turn.id, undoing.id, uuid4()]) == {turn.id}
    await end(store, undoing, SUCCESS)

    assert await find_compensated(store.database, [turn.id]) == set()
    assert await revived(store, turn.id) == [turn.id]


async def test_a_retry_waits_for_the_compensation(store: Store) -> None:
    turn = await parent_of(store)
    await end(store, turn, FAILURE, replace(COMPENSATES, halt=True))
    [compensation] = await compensation_of(store, turn.id)
    given: dict[str, Any] = {"expires_in_seconds": 900, "requested_by": "who"}

    assert await retry(store.database, turn.id, start_trace(1), **given) is None
    before = await read_halt(store.database, turn.id)
    await end(store, await claimed(store, session_id=compensation["session_id"]), SUCCESS)
    after = await read_halt(store.database, turn.id)

    assert before is not None
    assert after is not None
    assert (before.halts, before.compensated, after.halts, after.compensated) == (True, True, True, False)
    assert await retry(store.database, turn.id, start_trace(1), **given) is not None


# --- compensations that FAILED themselves


async def failed_pair(store: Store, by: Any = None) -> tuple[UUID, UUID]:
    """A turn that FAILED, and its compensation, which did too."""
    turn = await parent_of(store)
    await end(store, turn, FAILURE, COMPENSATES)
    [compensation] = await compensation_of(store, turn.id)
    await end(store, await claimed(store, session_id=compensation["session_id"]), FAILURE, by)
    return turn.id, compensation["id"]


async def test_of_a_turn_and_its_compensation_in_one_batch_only_the_compensation_is_redriven(store: Store) -> None:
    turn, compensation = await failed_pair(store)

    assert await find_compensated(store.database, [turn]) == set()
    assert await find_compensated(store.database, [turn, compensation]) == {turn}
    assert await revived(store, turn, compensation) == [compensation]


async def test_a_compensation_is_redriven_only_while_its_turn_is_failed(store: Store) -> None:
    turn, compensation = await failed_pair(store)
    assert await revived(store, turn) == [turn]

    assert await find_compensated(store.database, [compensation]) == {compensation}
    assert await revived(store, compensation) == []
    running = await claim_parent(store)
    assert await revived(store, compensation) == []
    await end(store, running, FAILURE)

    assert await find_compensated(store.database, [compensation]) == set()
    assert await revived(store, compensation) == [compensation]


async def test_a_compensation_that_halts_its_session_is_not_retried_after_its_turn_was_redriven(store: Store) -> None:
    turn, compensation = await failed_pair(store, terms(halt=True))
    given: dict[str, Any] = {"expires_in_seconds": 900, "requested_by": "who"}
    assert await revived(store, turn, compensation) == [turn]

    assert await retry(store.database, compensation, start_trace(1), **given) is None
    at_work = await read_halt(store.database, compensation)
    await end(store, await claim_parent(store), FAILURE)
    failed = await read_halt(store.database, compensation)

    assert at_work is not None
    assert failed is not None
    assert (at_work.halts, at_work.overtaken, failed.halts, failed.overtaken) == (True, True, True, False)
    assert await retry(store.database, compensation, start_trace(1), **given) is not None
