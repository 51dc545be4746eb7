"""Revive: a redrive puts a FAILED turn back to work once, with new budgets."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import FAILURE, RESEND_SECONDS, claimed, row_of, settle_one, submit_one
from tests.statements.store import START, Store
from turnstile.ops.turns.attempts import read_attempts
from turnstile.statements.cancel import cancel
from turnstile.statements.revive import Revived, is_of_another, read_generations, revive
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import start_trace
from turnstile.turn.wire_format import WakeUp


async def revived(store: Store, *failed: tuple[UUID, int]) -> list[Revived]:
    return await revive(
        store.database,
        failed,
        [start_trace(1 << 64 | number) for number, _ in enumerate(failed, 1)],
        expires_in_seconds=[900] * len(failed),
        resend_seconds=RESEND_SECONDS,
    )


async def failed_turn(store: Store) -> UUID:
    accepted = await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE)
    return accepted.turn_id


async def test_a_revived_turn_has_new_budgets_and_is_the_last_of_its_session(store: Store) -> None:
    turn_id = await failed_turn(store)
    await submit_one(store)
    await store.pass_time(10)

    (answer,) = await revived(store, (turn_id, 1))

    row = await row_of(store, turn_id)
    now = START + timedelta(seconds=10)
    assert (answer.queue, answer.message.wake_up.turn_id) == ("turns", turn_id)
    assert (row["status"], row["seq"], row["generation"]) == ("PENDING", 3, 2)
    assert (row["attempt"], row["failures"], row["crashes"], row["sends"]) == (0, 0, 0, 0)
    assert (row["error_class"], row["error"], row["finished_at"], row["started_at"]) == (None, None, None, None)
    assert (row["execute_at"], row["send_at"]) == (now, now + timedelta(seconds=RESEND_SECONDS))
    assert row["expires_at"] == now + timedelta(seconds=900)
    trace = start_trace(1 << 64 | 1)
    assert (row["trace_id"], answer.message.traceparent) == (trace.trace_id, trace.traceparent)
    assert (await claimed(store)).seq == 2


async def test_a_revived_turn_keeps_its_input_and_its_attempts_and_gets_a_higher_fence(store: Store) -> None:
    await submit_one(store, "one")
    before = await claimed(store)
    await settle_one(store, before, FAILURE)
    await revived(store, (before.id, 1))

    after = await claimed(store)
    await settle_one(store, after)

    assert (after.id, after.inputs, after.generation, after.attempt) == (before.id, ("one",), 2, 1)
    assert after.fence > before.fence
    attempts = await read_attempts(store.database, "t", before.id)
    assert [(one.generation, one.attempt, one.outcome) for one in attempts] == [(1, 1, "failed"), (2, 1, "succeeded")]


async def test_revived_turns_of_one_session_keep_their_order(store: Store) -> None:
    first, second = await failed_turn(store), await failed_turn(store)

    await revived(store, (second, 1), (first, 1))

    assert [(await row_of(store, turn_id))["seq"] for turn_id in (first, second)] == [3, 4]
    assert (await claimed(store)).id == first


async def test_a_second_redrive_of_a_generation_changes_nothing(store: Store) -> None:
    turn_id = await failed_turn(store)
    assert len(await revived(store, (turn_id, 1))) == 1
    assert await read_generations(store.database, [turn_id, uuid4()]) == {turn_id: (2, "PENDING")}
    await settle_one(store, await claimed(store), FAILURE)
    before = await store.snapshot()

    assert await revived(store, (turn_id, 1)) == []
    assert await store.snapshot() == before
    assert len(await revived(store, (turn_id, 2))) == 1


async def test_only_a_failed_turn_is_revived(store: Store) -> None:
    waiting = (await submit_one(store, session_id="waiting")).turn_id
    running = (await submit_one(store, session_id="running")).turn_id
    await claimed(store, session_id="running")
    ended = (await submit_one(store, session_id="ended")).turn_id
    await settle_one(store, await claimed(store, session_id="ended"))
    stopped = (await submit_one(store, session_id="stopped")).turn_id
    await cancel(store.database, "t", stopped, CancelReason.USER)

    assert await revived(store, *((turn_id, 1) for turn_id in (waiting, running, ended, stopped))) == []


@pytest.mark.parametrize(
    ("named", "of_another"),
    [
        (("t", "s", "turns"), False),
        (("another", "s", "turns"), True),
        (("t", "another", "turns"), True),
        (("t", "s", "another"), True),
    ],
)
async def test_a_message_that_names_a_turn_of_another_tenant_session_or_queue_is_recognised(
    store: Store, named: tuple[str, str, str], of_another: bool
) -> None:
    turn_id = await failed_turn(store)
    tenant_id, session_id, queue = named

    assert await is_of_another(store.database, WakeUp(tenant_id, session_id, turn_id), queue) is of_another
    assert not await is_of_another(store.database, WakeUp(tenant_id, session_id, uuid4()), queue)
