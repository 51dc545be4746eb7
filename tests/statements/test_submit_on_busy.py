"""Submit with a policy for a busy session (`on_busy`)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    RELEASE,
    RESEND_SECONDS,
    RETRY,
    claim_one,
    claimed,
    outcomes,
    row_of,
    said,
    settle_one,
    submit_one,
)
from tests.statements.store import START, Store
from tests.support.factories import make_submission
from turnstile.errors import IdempotencyMismatchError, SessionBusyError, TurnIdTakenError
from turnstile.statements.cancel import cancel, cancel_ahead
from turnstile.statements.claim import NoClaim
from turnstile.statements.submit import Accepted, Submission
from turnstile.statements.submit_on_busy import OnBusyResult, submit_on_busy
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import idempotency_key, turn_id_key
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.settlement import Settlement

POLICIES = [OnBusy.REJECT, OnBusy.INTERRUPT, OnBusy.MERGE]


async def ask(store: Store, on_busy: OnBusy, submission: Submission) -> OnBusyResult:
    return await submit_on_busy(store.database, replace(submission, on_busy=on_busy), resend_seconds=RESEND_SECONDS)


async def text(
    store: Store, on_busy: OnBusy, content: Any = "and another thing", queue: str = "turns", **fields: Any
) -> OnBusyResult:
    return await ask(store, on_busy, make_submission(queue, "s", content, **fields))


async def accepted(store: Store, on_busy: OnBusy, content: Any = "and another thing", **fields: Any) -> Accepted:
    answer = (await text(store, on_busy, content, **fields)).answer
    assert isinstance(answer, Accepted)
    return answer


async def refused(store: Store) -> UUID:
    answer = (await text(store, OnBusy.REJECT)).answer
    assert isinstance(answer, SessionBusyError)
    return answer.turn_id


async def statuses(store: Store) -> list[tuple[int | None, str, str | None]]:
    rows = sorted((await store.snapshot())["turns"], key=lambda row: (row["seq"] is None, row["seq"]))
    return [(row["seq"], row["status"], row["cancel_reason"]) for row in rows]


# --- a session that is not busy


async def test_in_a_new_session_a_turn_is_recorded(store: Store) -> None:
    answer = await accepted(store, OnBusy.REJECT, "hello")

    assert (answer.replayed, answer.wake, answer.merged) == (False, True, False)
    turn = await claimed(store)
    assert (turn.id, turn.seq, turn.inputs) == (answer.turn_id, 1, ("hello",))


@pytest.mark.parametrize("on_busy", POLICIES)
async def test_ended_and_scheduled_turns_do_not_make_a_session_busy(store: Store, on_busy: OnBusy) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store))
    await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE)
    await submit_one(store, execute_at=START + timedelta(hours=1))

    answer = await accepted(store, on_busy)

    assert (await claimed(store)).id == answer.turn_id
    assert await statuses(store) == [
        (1, "SUCCEEDED", None), (2, "FAILED", None), (3, "RUNNING", None), (None, "PENDING", None),
    ]  # fmt: skip


# --- reject


async def test_a_busy_session_refuses_and_names_its_head(store: Store) -> None:
    head = await submit_one(store)
    await submit_one(store)

    assert await refused(store) == head.turn_id
    await claimed(store)
    assert await refused(store) == head.turn_id
    assert len(await statuses(store)) == 2


async def test_a_turn_that_waits_for_its_retry_keeps_its_session_busy(store: Store) -> None:
    head = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await refused(store) == head.turn_id


# --- merge


async def test_a_merged_input_is_added_to_the_turn_that_still_waits(store: Store) -> None:
    first = await submit_one(store, "one")

    second = await accepted(store, OnBusy.MERGE, {"say": "two"})
    third = await accepted(store, OnBusy.MERGE, "three")

    assert [(one.turn_id, one.merged, one.wake) for one in (second, third)] == [(first.turn_id, True, False)] * 2
    assert (await claimed(store)).inputs == ("one", {"say": "two"}, "three")
    assert len(await statuses(store)) == 1


async def test_a_merged_input_is_added_to_the_last_turn_in_line(store: Store) -> None:
    await submit_one(store, "one")
    behind = await submit_one(store, "two")

    assert (await accepted(store, OnBusy.MERGE, "three")).turn_id == behind.turn_id
    assert await said(store, behind.turn_id) == [("user", "two"), ("user", "three")]


async def test_a_running_turn_is_not_merged_into(store: Store) -> None:
    await submit_one(store, "one")
    turn = await claimed(store)

    answer = await accepted(store, OnBusy.MERGE, "two")

    assert not answer.merged
    await settle_one(store, turn)
    assert (await claimed(store)).inputs == ("two",)


async def test_a_turn_that_a_handler_has_seen_is_not_merged_into(store: Store) -> None:
    """The side effects of the attempt belong to the input that it had."""
    first = await submit_one(store, "one")
    await settle_one(store, await claimed(store), RELEASE)

    answer = await accepted(store, OnBusy.MERGE, "two")

    assert not answer.merged
    assert await said(store, first.turn_id) == [("user", "one")]


async def test_neither_a_turn_of_another_queue_nor_one_before_it_is_merged_into(store: Store) -> None:
    await submit_one(store, "one")
    await submit_one(store, "two", queue="other")

    assert not (await accepted(store, OnBusy.MERGE, "three")).merged
    assert [seq for seq, _, _ in await statuses(store)] == [1, 2, 3]


@pytest.mark.parametrize(("limit", "value"), [("MAX_INPUTS", 3), ("MAX_INPUT_BYTES", 16)])
async def test_a_turn_that_has_as_many_inputs_or_bytes_as_allowed_is_not_merged_into(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"turnstile.turn.on_busy.{limit}", value)
    # Six bytes as JSON: the letter counts as the two bytes that are stored, not as the six of an escape.
    first = await submit_one(store, "\u00fc12")
    for _ in range(2):
        assert (await accepted(store, OnBusy.MERGE, "\u00fc34")).turn_id == first.turn_id

    assert not (await accepted(store, OnBusy.MERGE, "one too many")).merged


# --- interrupt


async def test_an_interrupt_supersedes_waiting_turns(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)

    texted = await text(store, OnBusy.INTERRUPT, "no, wait")

    assert texted.asked == ()
    assert await statuses(store) == [
        (1, "CANCELED", "superseded"), (2, "CANCELED", "superseded"), (3, "PENDING", None),
    ]  # fmt: skip
    assert (await claimed(store)).inputs == ("no, wait",)


async def test_an_interrupt_asks_the_running_turn_to_stop_and_waits_for_its_settle(store: Store) -> None:
    await submit_one(store)
    running = await claimed(store)

    texted = await text(store, OnBusy.INTERRUPT)

    assert texted.asked == (running.id,)
    assert await statuses(store) == [(1, "RUNNING", "superseded"), (2, "PENDING", None)]
    assert await claim_one(store) is NoClaim.RUNNING
    await settle_one(store, running)
    assert await statuses(store) == [(1, "CANCELED", "superseded"), (2, "PENDING", None)]
    assert (await claimed(store)).seq == 2


async def test_an_earlier_cancel_keeps_its_reason(store: Store) -> None:
    first = await submit_one(store)
    await claimed(store)
    await cancel(store.database, "t", first.turn_id, CancelReason.USER)

    texted = await text(store, OnBusy.INTERRUPT)

    assert texted.asked == (first.turn_id,)
    assert (await row_of(store, first.turn_id))["cancel_reason"] == "user"


async def test_a_submit_whose_turn_id_is_taken_interrupts_nothing(store: Store) -> None:
    first = await submit_one(store)
    before = await store.snapshot()

    with pytest.raises(TurnIdTakenError):
        await text(store, OnBusy.INTERRUPT, turn_id=first.turn_id, chosen=True, key=idempotency_key("k"))

    assert await store.snapshot() == before


async def test_a_submit_whose_cancel_came_first_interrupts_nothing(store: Store) -> None:
    await submit_one(store)
    chosen = UUID(int=77)
    assert await cancel_ahead(store.database, "t", chosen, CancelReason.USER) is None

    texted = await text(store, OnBusy.INTERRUPT, turn_id=chosen, chosen=True, key=turn_id_key(chosen))

    assert isinstance(texted.answer, Accepted)
    assert (texted.answer.turn_id, texted.answer.wake, texted.canceled, texted.asked) == (chosen, False, (), ())
    assert await statuses(store) == [(1, "PENDING", None), (None, "CANCELED", "user")]


# --- halted


async def test_a_halted_session_is_busy_with_the_turn_that_halted_it(store: Store) -> None:
    failed = await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE, halt=True)

    assert await refused(store) == failed.turn_id
    answer = await accepted(store, OnBusy.INTERRUPT)
    assert (await accepted(store, OnBusy.MERGE)).turn_id == answer.turn_id
    assert await claim_one(store) is NoClaim.IDLE


# --- repeats


@pytest.mark.parametrize("on_busy", POLICIES)
async def test_a_repeat_gets_the_first_result_whatever_became_of_the_session(store: Store, on_busy: OnBusy) -> None:
    head = await submit_one(store)
    submission = make_submission("turns", "s", "again", key=idempotency_key("k"))
    first = (await ask(store, on_busy, submission)).answer
    await settle_one(store, await claimed(store))
    before = await store.snapshot()

    repeat = make_submission("turns", "s", "again", key=idempotency_key("k"))
    again = await ask(store, on_busy, repeat)

    assert again.asked == ()
    if isinstance(first, SessionBusyError):
        assert isinstance(again.answer, SessionBusyError)
        assert (again.answer.turn_id, again.answer.replayed) == (head.turn_id, True)
    else:
        assert isinstance(again.answer, Accepted)
        assert (again.answer.turn_id, again.answer.merged) == (first.turn_id, first.merged)
        assert again.answer.replayed
    after = await store.snapshot()
    assert {name: after[name] for name in ("turns", "messages", "submissions")} == {
        name: before[name] for name in ("turns", "messages", "submissions")
    }


@pytest.mark.parametrize("on_busy", POLICIES)
async def test_a_call_whose_response_was_lost_finds_its_first_result_without_a_key(
    store: Store, on_busy: OnBusy
) -> None:
    await submit_one(store, "one")
    submission = make_submission("turns", "s", "two")
    first = (await ask(store, on_busy, submission)).answer

    again = (await ask(store, on_busy, submission)).answer

    assert type(again) is type(first)
    if isinstance(first, Accepted) and isinstance(again, Accepted):
        assert again == first
    contents = [row["content"] for row in (await store.snapshot())["messages"]]
    assert contents.count("two") == (0 if on_busy is OnBusy.REJECT else 1)


async def test_the_same_key_for_another_request_is_refused(store: Store) -> None:
    await text(store, OnBusy.MERGE, "one", key=idempotency_key("k"))

    with pytest.raises(IdempotencyMismatchError):
        await text(store, OnBusy.MERGE, "two", key=idempotency_key("k"))

    assert len(await statuses(store)) == 1


# --- the partial reply of a stopped turn


async def test_the_partial_reply_of_an_interrupted_turn_is_stored_apart_from_the_history(store: Store) -> None:
    await submit_one(store, "tell me all")
    turn = await claimed(store)
    await text(store, OnBusy.INTERRUPT)

    half = Settlement(status=CANCELED.status, outcome=CANCELED.outcome, partial="Well, in the begi")
    await settle_one(store, turn, half)

    rows = [row for row in (await store.snapshot())["messages"] if row["turn_id"] == turn.id]
    assert [(row["ordinal"], row["role"], row["kind"], row["content"]) for row in rows] == [
        (0, "user", "message", "tell me all"),
        (1, "assistant", "partial", "Well, in the begi"),
    ]
    assert await outcomes(store, turn.id) == [(1, "canceled")]


async def test_the_partial_reply_is_stored_also_if_the_worker_learns_of_the_cancel_at_the_settle(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await text(store, OnBusy.INTERRUPT)

    done = Settlement(status=FAILURE.status, outcome=FAILURE.outcome, error_class="Boom", partial="I thi")
    await settle_one(store, turn, done)

    assert await said(store, turn.id) == [("user", "hello"), ("assistant", "I thi")]


@pytest.mark.parametrize("settlement", [RETRY, FAILURE])
async def test_the_partial_reply_of_a_turn_that_was_not_stopped_is_not_stored(
    store: Store, settlement: Settlement
) -> None:
    await submit_one(store)
    turn = await claimed(store)

    await settle_one(store, turn, replace(settlement, partial="half a"))

    assert await said(store, turn.id) == [("user", "hello")]
