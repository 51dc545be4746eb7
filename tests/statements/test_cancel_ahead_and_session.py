"""Cancels that come before their submit, and cancels of a whole session."""

from datetime import timedelta
from uuid import UUID

from tests.statements.calls import FAILURE, RESEND_SECONDS, claim_one, claimed, row_of, settle_one, submit_one
from tests.statements.family_calls import COMPENSATES, compensation_of, end, parent_of
from tests.statements.store import START, Store
from tests.support.factories import make_submission
from turnstile.statements.cancel import CanceledSession, CanceledTurn, cancel_ahead, cancel_session
from turnstile.statements.cancel_before_submit import forget_chosen_ids
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus

CHOSEN = UUID(int=77)


async def stop_ahead(store: Store, turn_id: UUID = CHOSEN, tenant_id: str = "t") -> CanceledTurn | None:
    return await cancel_ahead(store.database, tenant_id, turn_id, CancelReason.USER)


async def stop_session(store: Store, session_id: str = "s") -> CanceledSession | None:
    return await cancel_session(store.database, "t", session_id, CancelReason.USER, requested_by="key k")


# --- before its submit


async def test_a_turn_whose_cancel_came_first_is_created_canceled_without_a_place(store: Store) -> None:
    assert await stop_ahead(store) is None
    await store.pass_time(5)

    answer = await submit_one(store, turn_id=CHOSEN, chosen=True)
    following = await submit_one(store)

    row = await row_of(store, CHOSEN)
    assert (answer.turn_id, answer.wake, answer.replayed) == (CHOSEN, False, False)
    assert (row["status"], row["seq"], row["send_at"], row["cancel_reason"]) == ("CANCELED", None, None, "user")
    assert row["cancel_requested_at"] == START
    assert row["finished_at"] == row["created_at"] == START + timedelta(seconds=5)
    turn = await claimed(store)
    assert (turn.id, turn.seq) == (following.turn_id, 1)


async def test_a_cancel_of_another_tenant_does_not_count(store: Store) -> None:
    await stop_ahead(store, tenant_id="another")

    await submit_one(store, turn_id=CHOSEN, chosen=True)

    assert isinstance(await claim_one(store), ClaimedTurn)


async def test_other_turns_of_the_batch_are_not_canceled(store: Store) -> None:
    await stop_ahead(store)
    batch = [
        make_submission("turns", content="one"),
        make_submission("turns", content="two", turn_id=CHOSEN, chosen=True),
        make_submission("turns", content="three", turn_id=UUID(int=78), chosen=True),
    ]

    answers = await submit(store.database, batch, resend_seconds=RESEND_SECONDS)

    assert [isinstance(one, Accepted) and one.wake for one in answers] == [True, False, True]
    assert [(await row_of(store, one.turn_id))["seq"] for one in batch] == [1, None, 2]


async def test_of_two_cancels_before_the_submit_the_first_counts(store: Store) -> None:
    await stop_ahead(store)
    await store.pass_time(5)
    assert await cancel_ahead(store.database, "t", CHOSEN, CancelReason.SUPERSEDED) is None

    await submit_one(store, turn_id=CHOSEN, chosen=True)

    row = await row_of(store, CHOSEN)
    assert (row["cancel_requested_at"], row["cancel_reason"]) == (START, "user")


async def test_a_cancel_after_the_submit_finds_the_turn(store: Store) -> None:
    await submit_one(store, turn_id=CHOSEN, chosen=True)

    met = await stop_ahead(store)

    assert met == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")


async def test_a_repeated_submit_of_a_turn_that_was_created_canceled_gets_the_same_result(store: Store) -> None:
    await stop_ahead(store)
    first = await submit_one(store, turn_id=CHOSEN, chosen=True, key=f"turn:{CHOSEN}")

    again = await submit_one(store, turn_id=CHOSEN, chosen=True, key=f"turn:{CHOSEN}")

    assert (again.turn_id, again.created_at, again.replayed) == (CHOSEN, first.created_at, True)
    assert len((await store.snapshot())["turns"]) == 1


async def test_old_tombstones_are_forgotten(store: Store) -> None:
    await stop_ahead(store)
    await store.pass_time(50)
    await stop_ahead(store, UUID(int=78))
    await store.pass_time(20)

    await forget_chosen_ids(store.database, 60)

    assert [row["turn_id"] for row in (await store.snapshot())["chosen_ids"]] == [UUID(int=78)]


async def test_a_submit_without_a_chosen_id_writes_no_chosen_id(store: Store) -> None:
    await submit_one(store)

    assert (await store.snapshot())["chosen_ids"] == []


# --- a whole session


async def test_all_open_turns_of_a_session_are_cancelled(store: Store) -> None:
    running = (await submit_one(store)).turn_id
    await claimed(store)
    waiting = (await submit_one(store)).turn_id
    scheduled = (await submit_one(store, execute_at=START + timedelta(hours=1))).turn_id
    elsewhere = (await submit_one(store, session_id="another")).turn_id

    met = await stop_session(store)

    assert met is not None
    assert (set(met.canceled), met.asked, met.woken) == ({waiting, scheduled}, (running,), None)
    rows = {row["id"]: (row["status"], row["cancel_reason"]) for row in (await store.snapshot())["turns"]}
    assert rows == {
        running: ("RUNNING", "user"),
        waiting: ("CANCELED", "user"),
        scheduled: ("CANCELED", "user"),
        elsewhere: ("PENDING", None),
    }


async def test_a_cancel_of_several_turns_is_in_the_audit_and_one_of_a_single_turn_is_not(store: Store) -> None:
    await submit_one(store, session_id="single")
    for _ in range(3):
        await submit_one(store)
    await claimed(store)

    for session_id in ("single", "s", "s"):
        await stop_session(store, session_id)

    events = await store.database.fetch("SELECT kind, actor, tenant_id, subject, counts FROM audit ORDER BY id", {})
    about = {"kind": "turns.canceled", "actor": "key k", "tenant_id": "t", "subject": "open turns: session s"}
    # The second time, the running one is asked again.
    assert events == [{**about, "counts": {"turns": 3}}]


async def test_a_compensation_is_not_canceled_with_its_session(store: Store) -> None:
    turn = await parent_of(store)
    await end(store, turn, FAILURE, COMPENSATES)
    [undoing] = await compensation_of(store, turn.id)

    met = await stop_session(store, undoing["session_id"])

    assert met is not None
    assert (met.canceled, met.asked) == ((), ())
    assert (await row_of(store, undoing["id"]))["status"] == "PENDING"


async def test_a_session_without_open_turns_has_nothing_to_cancel(store: Store) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store))

    assert await stop_session(store) == CanceledSession((), ())


async def test_an_unknown_session_is_not_found(store: Store) -> None:
    assert await stop_session(store) is None
