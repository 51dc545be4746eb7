"""Submit: a place in the session, and the same result for a repeated request."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import QUEUE, RESEND_SECONDS, row_of, said, seconds_from_creation, submit_one
from tests.statements.store import START, Store
from tests.support.factories import make_submission, make_worker_record
from turnstile.errors import IdempotencyMismatchError, TurnIdTakenError
from turnstile.statements.cancel import cancel
from turnstile.statements.submit import Accepted, Submission, forget_submissions, submit
from turnstile.statements.worker_registry import announce
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import idempotency_key, turn_id_key

KEY = idempotency_key("k")


async def submit_all(store: Store, *submissions: Submission) -> list[object]:
    return list(await submit(store.database, submissions, resend_seconds=RESEND_SECONDS))


# --- the row


async def test_a_turn_is_recorded_pending_with_its_place_and_its_resend_deadline(store: Store) -> None:
    accepted = await submit_one(store, {"text": "hello"}, expires_in_seconds=900, metadata={"a": 1})

    row = await row_of(store, accepted.turn_id)
    assert (row["status"], row["seq"], row["attempt"], row["fence"], row["generation"]) == ("PENDING", 1, 0, 0, 1)
    assert (row["send_at"], row["metadata"]) == (START + timedelta(seconds=RESEND_SECONDS), {"a": 1})
    assert (accepted.created_at, accepted.expires_at) == (START, START + timedelta(seconds=900))
    assert (accepted.execute_at, accepted.replayed, accepted.wake) == (None, False, True)
    assert await said(store, accepted.turn_id) == [("user", {"text": "hello"})]


async def test_a_batch_may_have_whole_and_fractional_durations(store: Store) -> None:
    batch = [make_submission(QUEUE, timeout_seconds=seconds) for seconds in (5, 2.5, None)]

    await submit_all(store, *batch)

    assert [(await row_of(store, one.turn_id))["timeout_seconds"] for one in batch] == [5, 2.5, None]


@pytest.mark.parametrize(
    ("queue_latency", "resend_after"),
    [(10.0, 60.0), (45.0, 90.0), (5_000.0, 1_800.0)],
    ids=["short", "long", "endless"],
)
async def test_the_resend_deadline_is_twice_the_queue_latency(
    store: Store, queue_latency: float, resend_after: float
) -> None:
    await announce(store.database, make_worker_record(QUEUE, queue_latency_seconds=queue_latency))
    await announce(store.database, make_worker_record("other", "v", queue_latency_seconds=600.0))

    accepted = await submit_one(store)

    assert await seconds_from_creation(store, accepted.turn_id, "send_at") == resend_after


@pytest.mark.parametrize(
    ("lease_seconds", "silent_seconds", "resend_after"),
    [(30.0, 39.0, 90.0), (30.0, 41.0, 60.0), (90.0, 119.0, 90.0), (90.0, 121.0, 60.0)],
)
async def test_the_queue_latency_of_a_worker_counts_while_it_is_alive_by_its_own_lease(
    store: Store, lease_seconds: float, silent_seconds: float, resend_after: float
) -> None:
    await announce(store.database, make_worker_record(QUEUE, queue_latency_seconds=45.0, lease_seconds=lease_seconds))
    await store.pass_time(silent_seconds)

    accepted = await submit_one(store)

    assert await seconds_from_creation(store, accepted.turn_id, "send_at") == resend_after


async def test_content_that_postgres_refuses_fails_the_whole_batch(store: Store) -> None:
    with pytest.raises(psycopg.DataError):
        await submit_all(store, make_submission(QUEUE, content="fine"), make_submission(QUEUE, content=float("nan")))

    assert (await store.snapshot())["turns"] == []
    assert (await store.snapshot())["sessions"] == []


@pytest.mark.parametrize("ids", [{"tenant_id": ""}, {"session_id": "a/b"}])
def test_a_tenant_or_session_that_no_message_may_name_is_refused(ids: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="tenant_id and session_id must each be"):
        make_submission("turns", **ids)


# --- places


async def test_a_batch_numbers_the_turns_of_each_session_in_its_order(store: Store) -> None:
    await submit_one(store, session_id="a")
    batch = [make_submission(QUEUE, session, number) for number, session in enumerate(["a", "b", "a", "a", "b"])]
    batch.append(make_submission(QUEUE, "a", tenant_id="other"))

    await submit_all(store, *reversed(batch))

    seqs = [(await row_of(store, one.turn_id))["seq"] for one in reversed(batch)]
    assert seqs == [1, 1, 2, 3, 2, 4]
    sessions = (await store.snapshot())["sessions"]
    assert [(row["tenant_id"], row["session_id"], row["last_seq"]) for row in sessions] == [
        ("other", "a", 1),
        ("t", "a", 4),
        ("t", "b", 2),
    ]


async def test_a_scheduled_turn_has_no_place_and_is_not_woken(store: Store) -> None:
    later = START + timedelta(hours=1)

    accepted = await submit_one(store, execute_at=later, expires_in_seconds=60)

    row = await row_of(store, accepted.turn_id)
    assert (row["seq"], row["execute_at"], row["send_at"]) == (None, later, later)
    assert (accepted.execute_at, accepted.wake) == (later, False)
    assert accepted.expires_at == later + timedelta(seconds=60)


async def test_a_turn_scheduled_for_the_past_is_due_at_once(store: Store) -> None:
    accepted = await submit_one(store, execute_at=START - timedelta(seconds=1))

    assert (accepted.execute_at, accepted.wake) == (None, True)
    assert (await row_of(store, accepted.turn_id))["seq"] == 1


# --- idempotency


@pytest.mark.parametrize("execute_at", [None, START + timedelta(hours=1)], ids=["at once", "scheduled"])
async def test_the_same_key_gets_the_first_result_whatever_became_of_the_turn(store: Store, execute_at: Any) -> None:
    first = make_submission(QUEUE, content="x", key=KEY, execute_at=execute_at)
    again = make_submission(QUEUE, content="x", key=KEY, execute_at=execute_at)
    (accepted,) = await submit_all(store, first)
    assert isinstance(accepted, Accepted)
    await store.pass_time(5)
    await cancel(store.database, "t", first.turn_id, CancelReason.USER)

    (replay,) = await submit_all(store, again)

    assert replay == replace(accepted, replayed=True, wake=False)
    assert len((await store.snapshot())["turns"]) == 1


async def test_the_same_key_in_one_batch_makes_one_turn(store: Store) -> None:
    batch = [make_submission(QUEUE, content="x", key=KEY) for _ in range(3)]

    answers = await submit_all(store, *batch)

    assert [answer.turn_id for answer in answers if isinstance(answer, Accepted)] == [batch[0].turn_id] * 3
    assert [answer.replayed for answer in answers if isinstance(answer, Accepted)] == [False, True, True]


async def test_the_same_key_for_another_request_is_refused_alone(store: Store) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=KEY))

    first, refused, last = await submit_all(
        store, make_submission(QUEUE), make_submission(QUEUE, content="y", key=KEY), make_submission(QUEUE)
    )

    assert isinstance(refused, IdempotencyMismatchError)
    assert (
        str(refused) == "'k' was used before with another request: use a new key, or a new turn id, for a new request"
    )
    assert isinstance(first, Accepted)
    assert isinstance(last, Accepted)
    assert [row["seq"] for row in (await store.snapshot())["turns"]] == [1, 2, 3]


async def test_each_tenant_has_its_own_keys(store: Store) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=KEY))

    (answer,) = await submit_all(store, make_submission(QUEUE, content="y", tenant_id="other", key=KEY))

    assert isinstance(answer, Accepted)
    assert not answer.replayed


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
async def test_a_submit_whose_response_was_lost_is_found_again_and_woken(store: Store, key: str | None) -> None:
    """Perhaps its wake-up was never sent; an extra wake-up does no harm."""
    lost = make_submission(QUEUE, key=key)
    (first,) = await submit_all(store, lost)

    (answer,) = await submit_all(store, lost)

    assert isinstance(first, Accepted)
    assert answer == replace(first, replayed=key is not None, wake=True)
    assert len((await store.snapshot())["turns"]) == 1


async def test_idempotency_records_are_forgotten_by_age(store: Store) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("old")))
    await store.pass_time(100)
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("new")))

    await forget_submissions(store.database, 99)

    assert [row["key"] for row in (await store.snapshot())["submissions"]] == ["key:new"]


# --- turn ids that clients choose


@pytest.mark.parametrize("keyed", [True, False], ids=["with a key", "without a key"])
async def test_a_turn_id_that_another_tenant_has_is_taken(store: Store, keyed: bool) -> None:
    turn_id = uuid4()
    key = turn_id_key(turn_id) if keyed else None
    await submit_all(store, make_submission(QUEUE, turn_id=turn_id, key=key))

    (refused,) = await submit_all(store, make_submission(QUEUE, turn_id=turn_id, tenant_id="other", key=key))

    assert isinstance(refused, TurnIdTakenError)
    assert str(refused) == f"turn id {turn_id} is taken: leave it out, or choose another"


async def test_a_turn_id_that_was_submitted_with_another_key_is_taken(store: Store) -> None:
    turn_id = uuid4()
    await submit_all(store, make_submission(QUEUE, turn_id=turn_id, key="key:a"))

    (refused,) = await submit_all(store, make_submission(QUEUE, turn_id=turn_id, key="key:b"))

    assert isinstance(refused, TurnIdTakenError)


@pytest.mark.parametrize("keys", [(None, None), ("key:a", "key:b")], ids=["without keys", "with two keys"])
async def test_a_turn_id_twice_in_a_batch_makes_one_turn(store: Store, keys: tuple[str | None, str | None]) -> None:
    turn_id = uuid4()

    answers = await submit_all(
        store,
        *(
            make_submission(QUEUE, session, turn_id=turn_id, key=key)
            for session, key in zip(("a", "b"), keys, strict=True)
        ),
    )

    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[1], TurnIdTakenError) is (keys[0] is not None)
    assert [row["session_id"] for row in (await store.snapshot())["sessions"]] == ["a"]
