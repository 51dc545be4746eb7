"""Submit, on both stores: a place in the session, the same answer to the same request, nothing half done."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import NET_SECONDS, QUEUE, row_of, said, seconds_from_creation, submit_one
from tests.support.factories import make_submission
from tests.support.fakes.store_stands import ORIGIN, START_SECONDS, Stand
from turnstile.errors import IdempotencyMismatchError, TurnIdTakenError
from turnstile.statements.submit import Accepted, Submission, forget_submissions, idempotency_key, submit
from turnstile.statements.worker_registry import WorkerRecord, announce

NOW = ORIGIN + timedelta(seconds=START_SECONDS)


async def submit_all(store: Stand, *submissions: Submission) -> list[object]:
    return list(await submit(store.database, submissions, net_seconds=NET_SECONDS))


async def test_a_turn_is_born_pending_with_its_place_and_its_net(store: Stand) -> None:
    accepted = await submit_one(store, {"text": "hello"}, expires_in_seconds=900)

    row = await row_of(store, accepted.turn_id)
    assert (row["status"], row["seq"], row["attempt"], row["fence"], row["generation"]) == ("PENDING", 1, 0, 0, 1)
    assert row["send_at"] == NOW + timedelta(seconds=NET_SECONDS)
    assert (accepted.created_at, accepted.expires_at) == (NOW, NOW + timedelta(seconds=900))
    assert (accepted.execute_at, accepted.replayed, accepted.wake) == (None, False, True)
    assert await said(store, accepted.turn_id) == [("user", {"text": "hello"})]


async def test_a_batch_numbers_each_session_in_its_order(store: Stand) -> None:
    batch = [make_submission(QUEUE, session, number) for number, session in enumerate(["a", "b", "a", "a", "b"])]

    await submit_all(store, *reversed(batch))

    seqs = [(await row_of(store, one.turn_id))["seq"] for one in reversed(batch)]
    assert seqs == [1, 1, 2, 2, 3]


async def test_a_session_goes_on_where_it_stood(store: Stand) -> None:
    await submit_one(store)

    second = await submit_one(store)

    assert (await row_of(store, second.turn_id))["seq"] == 2
    (session,) = (await store.snapshot())["sessions"]
    assert session["last_seq"] == 2


async def test_the_same_key_is_answered_as_the_first_time_and_makes_nothing(store: Stand) -> None:
    first = make_submission(QUEUE, content="x", key=idempotency_key("k"))
    again = make_submission(QUEUE, content="x", key=idempotency_key("k"))
    (accepted,) = await submit_all(store, first)
    await store.pass_time(5)

    (replay,) = await submit_all(store, again)

    assert isinstance(accepted, Accepted)
    assert isinstance(replay, Accepted)
    assert (replay.turn_id, replay.created_at, replay.trace) == (first.turn_id, accepted.created_at, first.trace)
    assert (replay.replayed, replay.wake) == (True, False)
    assert len((await store.snapshot())["turns"]) == 1


async def test_the_same_key_in_one_batch_makes_one_turn(store: Stand) -> None:
    batch = [make_submission(QUEUE, content="x", key=idempotency_key("k")) for _ in range(3)]

    answers = await submit_all(store, *batch)

    assert [answer.turn_id for answer in answers if isinstance(answer, Accepted)] == [batch[0].turn_id] * 3
    assert [answer.replayed for answer in answers if isinstance(answer, Accepted)] == [False, True, True]


async def test_the_same_key_for_something_else_is_refused(store: Stand) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("k")))

    (answer,) = await submit_all(store, make_submission(QUEUE, content="y", key=idempotency_key("k")))

    assert isinstance(answer, IdempotencyMismatchError)


async def test_a_key_is_its_tenants_own(store: Stand) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("k")))

    (answer,) = await submit_all(
        store, make_submission(QUEUE, content="y", tenant_id="other", key=idempotency_key("k"))
    )

    assert isinstance(answer, Accepted)
    assert not answer.replayed


async def test_a_submit_whose_answer_was_lost_is_found_by_its_id(store: Stand) -> None:
    lost = make_submission(QUEUE)
    await submit_all(store, lost)

    (answer,) = await submit_all(store, lost)

    assert isinstance(answer, Accepted)
    assert (answer.turn_id, answer.replayed, answer.wake) == (lost.turn_id, False, True)
    assert len((await store.snapshot())["turns"]) == 1


async def test_an_id_that_another_tenant_has_is_taken(store: Stand) -> None:
    turn_id = uuid4()
    await submit_all(store, make_submission(QUEUE, turn_id=turn_id))

    (answer,) = await submit_all(store, make_submission(QUEUE, turn_id=turn_id, tenant_id="other"))

    assert isinstance(answer, TurnIdTakenError)


async def test_of_one_id_twice_in_a_batch_the_first_is_recorded(store: Stand) -> None:
    turn_id = uuid4()

    answers = await submit_all(
        store,
        make_submission(QUEUE, "a", turn_id=turn_id, key=idempotency_key("1")),
        make_submission(QUEUE, "b", turn_id=turn_id, key=idempotency_key("2")),
    )

    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[1], TurnIdTakenError)
    assert [row["session_id"] for row in (await store.snapshot())["sessions"]] == ["a"]


async def test_a_scheduled_turn_has_no_place_and_is_not_to_be_woken(store: Stand) -> None:
    later = NOW + timedelta(hours=1)

    accepted = await submit_one(store, execute_at=later, expires_in_seconds=60)

    row = await row_of(store, accepted.turn_id)
    assert (row["seq"], row["execute_at"], row["send_at"]) == (None, later, later)
    assert (accepted.execute_at, accepted.wake) == (later, False)
    assert accepted.expires_at == later + timedelta(seconds=60)


async def test_a_time_that_has_passed_is_due_at_once(store: Stand) -> None:
    accepted = await submit_one(store, execute_at=NOW - timedelta(seconds=1))

    assert (accepted.execute_at, accepted.wake) == (None, True)
    assert (await row_of(store, accepted.turn_id))["seq"] == 1


@pytest.mark.parametrize(
    ("queue_latency", "net"), [(10.0, 60.0), (45.0, 90.0), (5_000.0, 1_800.0)], ids=["short", "long", "endless"]
)
async def test_the_net_is_twice_the_dwell_of_the_queue(store: Stand, queue_latency: float, net: float) -> None:
    worker: dict[str, Any] = {"host": "h", "pid": 1, "slots": 1, "busy": 0, "draining": False}
    await announce(
        store.database, WorkerRecord(worker_id="w", queue=QUEUE, queue_latency_seconds=queue_latency, **worker)
    )
    await announce(store.database, WorkerRecord(worker_id="v", queue="other", queue_latency_seconds=600.0, **worker))

    accepted = await submit_one(store)

    assert await seconds_from_creation(store, accepted.turn_id, "send_at") == net


async def test_what_postgres_cannot_store_refuses_the_whole_batch(store: Stand) -> None:
    with pytest.raises(psycopg.DataError):
        await submit_all(store, make_submission(QUEUE, content="fine"), make_submission(QUEUE, content=float("nan")))

    assert (await store.snapshot())["turns"] == []
    assert (await store.snapshot())["sessions"] == []


async def test_records_are_forgotten_by_age(store: Stand) -> None:
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("old")))
    await store.pass_time(100)
    await submit_all(store, make_submission(QUEUE, content="x", key=idempotency_key("new")))

    await forget_submissions(store.database, 99)

    assert [row["key"] for row in (await store.snapshot())["submissions"]] == ["key:new"]
