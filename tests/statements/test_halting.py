"""Halting queues: a FAILED turn halts its session until an operator retries or skips the turn (G9)."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import (
    FAILURE,
    MAX_CRASHES,
    RESEND_SECONDS,
    RETRY,
    SUCCESS,
    claim_one,
    claimed,
    lose,
    pass_lease,
    row_of,
    settle_one,
    submit_one,
)
from tests.statements.store import START, Store
from turnstile.ops.sessions.halted_session import Resumed, read_halt, retry, skip
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import EndedAtClaim, NoClaim
from turnstile.statements.revive import revive
from turnstile.statements.settle import Settled, Superseded
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.status import TurnStatus


async def halted_by(store: Store, session_id: str = "s") -> UUID | None:
    (row,) = [row for row in (await store.snapshot())["sessions"] if row["session_id"] == session_id]
    found: UUID | None = row["halted_by"]
    return found


async def halted_session(store: Store, *, waiting: int = 1) -> list[UUID]:
    """A session whose first turn has failed and halts it; the ids of its turns."""
    ids = [(await submit_one(store)).turn_id for _ in range(1 + waiting)]
    await settle_one(store, await claimed(store), FAILURE, more=True, halt=True)
    return ids


async def retried(store: Store, turn_id: UUID) -> Resumed | None:
    return await retry(store.database, turn_id, start_trace(1 << 64 | 1), expires_in_seconds=900, requested_by="who")


# --- halting


async def test_a_failed_turn_halts_its_session_and_owes_no_dead_letter(store: Store) -> None:
    first = (await submit_one(store)).turn_id
    await submit_one(store)

    settled = await settle_one(store, await claimed(store), FAILURE, more=True, halt=True)

    row = await row_of(store, first)
    assert settled == Settled(TurnStatus.FAILED, NoClaim.IDLE)
    assert (row["status"], row["error_class"], row["send_at"]) == ("FAILED", "Boom", None)
    assert await halted_by(store) == first


async def test_no_turn_of_a_halted_session_is_claimed_also_one_submitted_later(store: Store) -> None:
    _, second = await halted_session(store)
    await submit_one(store, "later")

    assert await claim_one(store, halt=True) is NoClaim.IDLE
    assert await claim_one(store, "worker-b") is NoClaim.IDLE
    assert (await row_of(store, second))["status"] == "PENDING"


async def test_a_turn_that_did_not_fail_halts_nothing(store: Store) -> None:
    await submit_one(store)

    await settle_one(store, await claimed(store), RETRY, halt=True)

    assert await halted_by(store) is None


async def test_an_acknowledged_cancel_halts_nothing(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await submit_one(store)
    turn = await claimed(store)
    await cancel(store.database, "t", turn_id, CancelReason.USER)

    settled = await settle_one(store, turn, FAILURE, more=True, halt=True)

    assert isinstance(settled, Settled)
    assert settled.status is TurnStatus.CANCELED
    assert isinstance(settled.next, ClaimedTurn)
    assert await halted_by(store) is None


async def test_a_superseded_settle_halts_nothing(store: Store) -> None:
    await submit_one(store)
    stale = await claimed(store)
    await pass_lease(store)
    await claimed(store, "worker-b")

    assert await settle_one(store, stale, FAILURE, halt=True) == Superseded()
    assert await halted_by(store) is None


async def test_a_crash_loop_halts_the_session_and_owes_no_dead_letter(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await submit_one(store)
    await lose(store, MAX_CRASHES)

    ended = await claim_one(store, halt=True)

    row = await row_of(store, turn_id)
    assert isinstance(ended, EndedAtClaim)
    assert (row["status"], row["error_class"], row["send_at"]) == ("FAILED", "crash_loop", None)
    assert await halted_by(store) == turn_id
    assert await claim_one(store, halt=True) is NoClaim.IDLE


async def test_a_cancel_behind_the_turn_that_halts_starts_no_other_turn(store: Store) -> None:
    _, second, third = await halted_session(store, waiting=2)

    await cancel(store.database, "t", second, CancelReason.USER)

    assert await claim_one(store) is NoClaim.IDLE
    assert (await row_of(store, third))["status"] == "PENDING"


async def test_a_redrive_does_not_revive_the_turn_that_halts(store: Store) -> None:
    first, _ = await halted_session(store)
    before = await store.snapshot()

    revived = await revive(
        store.database, [(first, 1)], [start_trace(1)], expires_in_seconds=[900], resend_seconds=RESEND_SECONDS
    )

    assert revived == []
    assert await store.snapshot() == before


# --- retry


async def test_a_retry_runs_the_turn_again_in_its_old_place(store: Store) -> None:
    first, second = await halted_session(store)
    await store.pass_time(100)

    resumed = await retried(store, first)

    row = await row_of(store, first)
    now = START + timedelta(seconds=100)
    assert resumed is not None
    assert resumed.woken is not None
    assert (resumed.woken[0], resumed.woken[1].wake_up.turn_id) == ("turns", first)
    assert (row["status"], row["seq"], row["generation"]) == ("PENDING", 1, 2)
    assert (row["attempt"], row["failures"], row["crashes"], row["sends"]) == (0, 0, 0, 0)
    assert (row["error_class"], row["error"], row["finished_at"], row["started_at"]) == (None, None, None, None)
    assert (row["execute_at"], row["send_at"], row["expires_at"]) == (now, now, now + timedelta(seconds=900))
    assert row["trace_id"] == start_trace(1 << 64 | 1).trace_id
    assert await halted_by(store) is None
    again = await claimed(store)
    assert (again.id, again.attempt, again.generation) == (first, 1, 2)
    settled = await settle_one(store, again, SUCCESS, more=True, halt=True)
    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.id == second


# --- skip


async def test_a_skip_leaves_the_turn_failed_owes_its_dead_letter_and_wakes_the_next(store: Store) -> None:
    first, second = await halted_session(store)
    await store.pass_time(100)

    resumed = await skip(store.database, first, requested_by="who")

    row, following = await row_of(store, first), await row_of(store, second)
    now = START + timedelta(seconds=100)
    assert resumed is not None
    assert resumed.woken is not None
    assert resumed.woken[1].wake_up.turn_id == second
    assert (row["status"], row["generation"], row["send_at"]) == ("FAILED", 1, now)
    assert following["send_at"] == now
    assert await halted_by(store) is None
    assert (await claimed(store)).id == second


async def test_a_skip_without_a_waiting_turn_wakes_none(store: Store) -> None:
    (first,) = await halted_session(store, waiting=0)

    assert await skip(store.database, first, requested_by="who") == Resumed(None)
    assert await halted_by(store) is None


@pytest.mark.parametrize("way", [retried, lambda store, turn_id: skip(store.database, turn_id, requested_by="who")])
async def test_retry_and_skip_of_a_turn_that_halts_nothing_change_nothing(store: Store, way: Any) -> None:
    waiting = (await submit_one(store)).turn_id
    failed = (await submit_one(store, session_id="failed")).turn_id
    await settle_one(store, await claimed(store, session_id="failed"), FAILURE)
    before = await store.snapshot()

    assert [await way(store, turn_id) for turn_id in (waiting, failed, uuid4())] == [None, None, None]
    assert await store.snapshot() == before


async def test_a_halt_is_read_with_the_number_of_waiting_turns(store: Store) -> None:
    first, second = await halted_session(store)

    halt, other = await read_halt(store.database, first), await read_halt(store.database, second)

    assert halt is not None
    assert other is not None
    assert (halt.halts, halt.status, halt.error_class, halt.waiting) == (True, TurnStatus.FAILED, "Boom", 1)
    assert (other.halts, other.status) == (False, TurnStatus.PENDING)
    assert await read_halt(store.database, uuid4()) is None
