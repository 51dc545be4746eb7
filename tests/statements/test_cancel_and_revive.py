"""Cancel and revive, on both stores: what comes from outside of a worker, and meets a turn wherever it stands."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import (
    FAILURE,
    LEASE_SECONDS,
    NET_SECONDS,
    QUIET_FAILURE,
    RETRY,
    claim_one,
    claimed,
    row_of,
    settle_one,
    submit_one,
    wake_head,
    wake_unlocked_head,
)
from tests.support.fakes.store_stands import ORIGIN, START_SECONDS, Stand
from turnstile.statements.cancel import CanceledTurn, cancel
from turnstile.statements.claim import NoClaim
from turnstile.statements.redrive import Revived, is_of_another, read_generations, revive
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import start_trace
from turnstile.turn.message import WakeUp
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus

NOW = ORIGIN + timedelta(seconds=START_SECONDS)


async def canceled(store: Stand, turn_id: UUID, tenant_id: str = "t") -> CanceledTurn | None:
    return await cancel(store.database, tenant_id, turn_id, CancelReason.USER)


async def revived(store: Stand, *failed: tuple[UUID, int]) -> list[Revived]:
    return await revive(
        store.database,
        failed,
        [start_trace(1 << 64 | number) for number, _ in enumerate(failed, 1)],
        expires_in_seconds=[900] * len(failed),
        net_seconds=NET_SECONDS,
    )


async def failed_turn(store: Stand, session_id: str = "s", settlement: Settlement = FAILURE) -> UUID:
    accepted = await submit_one(store, session_id=session_id)
    await settle_one(store, await claimed(store, session_id=session_id), settlement)
    return accepted.turn_id


# --- cancel


async def test_a_waiting_turn_is_cancelled_here_and_now(store: Stand) -> None:
    accepted = await submit_one(store)

    answer = await canceled(store, accepted.turn_id)

    row = await row_of(store, accepted.turn_id)
    assert answer == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")
    assert (row["status"], row["send_at"], row["cancel_reason"]) == ("CANCELED", None, "user")
    assert row["finished_at"] == row["cancel_requested_at"] == NOW
    assert await claim_one(store) is NoClaim.IDLE


async def test_the_heir_of_a_cancelled_head_is_made_due_and_told(store: Stand) -> None:
    head = await submit_one(store)
    heir = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)
    await store.pass_time(1)

    answer = await canceled(store, head.turn_id)

    assert answer is not None
    assert answer.woken is not None
    assert answer.woken[1].wake_up.turn_id == heir.turn_id
    assert (await row_of(store, heir.turn_id))["send_at"] == NOW + timedelta(seconds=1)


async def test_a_cancelled_turn_behind_the_head_wakes_the_head_that_is_due(store: Stand) -> None:
    head = await submit_one(store)
    behind = await submit_one(store)

    answer = await canceled(store, behind.turn_id)

    assert answer is not None
    assert answer.woken is not None
    assert answer.woken[1].wake_up.turn_id == head.turn_id


async def test_a_head_that_waits_for_its_retry_is_not_woken(store: Stand) -> None:
    await submit_one(store)
    behind = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await canceled(store, behind.turn_id) == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")
    assert await wake_head(store) == []


async def test_a_worker_that_leaves_a_session_makes_its_head_due(store: Stand) -> None:
    head, behind = await submit_one(store), await submit_one(store)
    before = await row_of(store, behind.turn_id)

    assert await wake_unlocked_head(store) is False

    assert (await row_of(store, head.turn_id))["send_at"] == NOW
    assert await row_of(store, behind.turn_id) == before


async def test_a_head_that_is_not_due_is_not_held(store: Stand) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await wake_unlocked_head(store) is False
    assert await wake_unlocked_head(store, "no such session") is False


async def test_a_scheduled_turn_is_cancelled_before_it_has_a_place(store: Stand) -> None:
    accepted = await submit_one(store, execute_at=NOW + timedelta(hours=1))

    await canceled(store, accepted.turn_id)

    row = await row_of(store, accepted.turn_id)
    assert (row["status"], row["seq"]) == ("CANCELED", None)


async def test_a_running_turn_is_asked_to_stop_and_the_first_request_counts(store: Stand) -> None:
    accepted = await submit_one(store)
    turn = await claimed(store)
    answer = await canceled(store, accepted.turn_id)
    await store.pass_time(5)
    await cancel(store.database, "t", accepted.turn_id, CancelReason.TIMEOUT)

    row = await row_of(store, accepted.turn_id)
    assert answer == CanceledTurn(TurnStatus.RUNNING, requested=True, session_id="s")
    assert (row["status"], row["cancel_reason"], row["cancel_requested_at"]) == ("RUNNING", "user", NOW)
    assert row["lease_until"] == NOW + timedelta(seconds=LEASE_SECONDS)
    assert (await claim_one(store), turn.attempt) == (NoClaim.RUNNING, 1)


@pytest.mark.parametrize("settlement", [FAILURE, QUIET_FAILURE], ids=["failed", "failed quietly"])
async def test_an_ended_turn_stays_as_it_is(store: Stand, settlement: Settlement) -> None:
    turn_id = await failed_turn(store, settlement=settlement)
    before = await store.snapshot()

    answer = await canceled(store, turn_id)

    assert answer == CanceledTurn(TurnStatus.FAILED, requested=False, session_id="s")
    assert await store.snapshot() == before


async def test_a_turn_of_another_tenant_is_nobodys(store: Stand) -> None:
    accepted = await submit_one(store)

    assert await canceled(store, accepted.turn_id, "other") is None
    assert await canceled(store, uuid4()) is None
    assert (await row_of(store, accepted.turn_id))["status"] == "PENDING"


# --- revive


async def test_a_failed_turn_goes_back_to_work_with_fresh_budgets_at_the_end_of_its_session(store: Stand) -> None:
    turn_id = await failed_turn(store)
    await submit_one(store)
    await store.pass_time(10)

    (answer,) = await revived(store, (turn_id, 1))

    row = await row_of(store, turn_id)
    now = NOW + timedelta(seconds=10)
    assert (answer.generation, answer.queue, answer.message.wake_up.turn_id) == (2, "turns", turn_id)
    assert (row["status"], row["seq"], row["generation"]) == ("PENDING", 3, 2)
    assert (row["attempt"], row["failures"], row["crashes"], row["sends"]) == (0, 0, 0, 0)
    assert (row["error_class"], row["error"], row["finished_at"], row["started_at"]) == (None, None, None, None)
    assert (row["execute_at"], row["send_at"]) == (now, now + timedelta(seconds=NET_SECONDS))
    assert row["expires_at"] == now + timedelta(seconds=900)
    assert row["trace_id"] == start_trace(1 << 64 | 1).trace_id
    assert (await claimed(store)).seq == 2


async def test_revived_turns_of_one_session_keep_their_order(store: Stand) -> None:
    first, second = await failed_turn(store), await failed_turn(store)

    await revived(store, (second, 1), (first, 1))

    assert [(await row_of(store, turn_id))["seq"] for turn_id in (first, second)] == [3, 4]
    assert [(await claimed(store)).id] == [first]


async def test_of_two_redrives_one_revives(store: Stand) -> None:
    turn_id = await failed_turn(store)

    first, second = await revived(store, (turn_id, 1)), await revived(store, (turn_id, 1))

    assert (len(first), len(second)) == (1, 0)
    assert await read_generations(store.database, [turn_id, uuid4()]) == {turn_id: (2, "PENDING")}


@pytest.mark.parametrize(
    ("named", "of_another"),
    [
        (("t", "s", "turns"), False),
        (("another", "s", "turns"), True),
        (("t", "another", "turns"), True),
        (("t", "s", "another"), True),
    ],
)
async def test_a_message_is_told_from_one_of_another_tenant_session_or_queue(
    store: Stand, named: tuple[str, str, str], of_another: bool
) -> None:
    turn_id = await failed_turn(store)
    tenant_id, session_id, queue = named

    assert await is_of_another(store.database, WakeUp(tenant_id, session_id, turn_id), queue) is of_another
    assert not await is_of_another(store.database, WakeUp(tenant_id, session_id, uuid4()), queue)


@pytest.mark.parametrize("generation", [0, 2])
async def test_another_generation_is_not_revived(store: Stand, generation: int) -> None:
    turn_id = await failed_turn(store)
    before = await store.snapshot()

    assert await revived(store, (turn_id, generation)) == []
    assert await store.snapshot() == before


async def test_what_did_not_fail_is_not_revived(store: Stand) -> None:
    waiting = (await submit_one(store, session_id="waiting")).turn_id
    running = (await submit_one(store, session_id="running")).turn_id
    await claimed(store, session_id="running")
    ended = (await submit_one(store, session_id="ended")).turn_id
    await settle_one(store, await claimed(store, session_id="ended"))
    stopped = (await submit_one(store, session_id="stopped")).turn_id
    await canceled(store, stopped)

    assert await revived(store, *((turn_id, 1) for turn_id in (waiting, running, ended, stopped))) == []


async def test_the_fence_of_a_revived_turn_goes_on_rising(store: Stand) -> None:
    await submit_one(store)
    before = await claimed(store)
    await settle_one(store, before, FAILURE)
    await revived(store, (before.id, 1))

    after = await claimed(store)

    assert (after.generation, after.attempt, after.fence > before.fence) == (2, 1, True)
