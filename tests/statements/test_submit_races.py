"""Submit: places in the session, idempotency, schedules, and many at once."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.support.factories import make_submission
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import IdempotencyMismatchError, SubmissionRefusedError, TurnIdTakenError
from turnstile.statements.cancel import cancel
from turnstile.statements.submit import Accepted, Submission, forget_submissions, idempotency_key, submit, turn_id_key
from turnstile.turn.cancel_reason import CancelReason

NET = 60.0
KEY = idempotency_key("once")


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


async def submit_all(database: Database, *submissions: Submission) -> list[Accepted]:
    answers = await submit(database, submissions, net_seconds=NET)
    assert all(isinstance(answer, Accepted) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Accepted)]


async def submit_one(database: Database, submission: Submission) -> Accepted | SubmissionRefusedError:
    return (await submit(database, [submission], net_seconds=NET))[0]


async def seqs(database: Database, session_id: str = "s") -> list[int | None]:
    rows = await database.fetch("SELECT seq FROM turns WHERE session_id = %(s)s ORDER BY seq", {"s": session_id})
    return [row["seq"] for row in rows]


# --- the row


async def test_a_turn_is_recorded_pending_with_its_input_and_a_net(database: Database, settings: Settings) -> None:
    submission = make_submission(settings.queue, content={"text": "hi"}, metadata={"a": 1}, max_attempts=7)

    (accepted,) = await submit_all(database, submission)

    rows = await database.fetch(
        "SELECT status, seq, attempt, generation, queue, metadata, max_attempts, trace_id,"
        " extract(epoch FROM send_at - created_at)::int AS net FROM turns WHERE id = %(id)s",
        {"id": accepted.turn_id},
    )
    assert rows == [
        {
            "status": "PENDING", "seq": 1, "attempt": 0, "generation": 1, "queue": settings.queue,
            "metadata": {"a": 1}, "max_attempts": 7, "trace_id": submission.trace.trace_id, "net": NET,
        }
    ]  # fmt: skip
    said = await database.fetch("SELECT ordinal, role, kind, content FROM messages", {})
    assert said == [{"ordinal": 0, "role": "user", "kind": "message", "content": {"text": "hi"}}]


async def test_the_net_is_twice_as_long_as_turns_wait_at_present(database: Database, settings: Settings) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, queue_latency_seconds) VALUES ('w', %(q)s, 'h', 1, 1, 500)",
        {"q": settings.queue},
    )

    await submit_all(database, make_submission(settings.queue), make_submission("another", "other"))

    rows = await database.fetch("SELECT extract(epoch FROM send_at - created_at)::int AS net FROM turns ORDER BY 1", {})
    assert [row["net"] for row in rows] == [60, 1000]


async def test_whole_and_fractional_durations_may_stand_in_one_batch(database: Database, settings: Settings) -> None:
    await submit_all(
        database,
        make_submission(settings.queue, timeout_seconds=5, expires_in_seconds=60),
        make_submission(settings.queue, timeout_seconds=2.5, expires_in_seconds=60.5),
        make_submission(settings.queue),
    )

    rows = await database.fetch("SELECT timeout_seconds FROM turns ORDER BY seq", {})
    assert [row["timeout_seconds"] for row in rows] == [5, 2.5, None]


# --- places


async def test_the_turns_of_a_batch_stand_in_its_order(database: Database, settings: Settings) -> None:
    batch = [make_submission(settings.queue, content=number) for number in range(20)]
    random.Random(3).shuffle(batch)

    await submit_all(database, *batch)

    rows = await database.fetch("SELECT m.content FROM turns t JOIN messages m ON m.turn_id = t.id ORDER BY t.seq", {})
    assert [row["content"] for row in rows] == [one.content for one in batch]


async def test_thirty_submits_at_once_to_one_session_leave_no_gap(database: Database, settings: Settings) -> None:
    await asyncio.gather(*(submit_all(database, make_submission(settings.queue)) for _ in range(30)))

    assert await seqs(database) == list(range(1, 31))


async def test_a_batch_for_many_sessions_counts_in_each_of_them(database: Database, settings: Settings) -> None:
    await submit_all(database, make_submission(settings.queue, "s-1"))

    await submit_all(database, *(make_submission(settings.queue, f"s-{number % 3}") for number in range(12)))

    assert [await seqs(database, f"s-{number}") for number in range(3)] == [
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4],
    ]


async def test_another_tenants_session_of_the_same_name_counts_by_itself(
    database: Database, settings: Settings
) -> None:
    await submit_all(database, *(make_submission(settings.queue, tenant_id=tenant) for tenant in ("a", "b", "a")))

    rows = await database.fetch("SELECT tenant_id, seq FROM turns ORDER BY 1, 2", {})
    assert [(row["tenant_id"], row["seq"]) for row in rows] == [("a", 1), ("a", 2), ("b", 1)]


async def test_mixed_batches_over_the_same_sessions_do_not_block_one_another(
    database: Database, settings: Settings
) -> None:
    dice = random.Random(7)
    later = datetime.now(UTC) + timedelta(hours=1)

    def batch(number: int) -> list[Submission]:
        made = [make_submission(settings.queue, f"s-{session}") for session in range(10)]
        # The same five keys in every batch: each of them makes one turn, in whichever batch comes first.
        made += [make_submission(settings.queue, f"s-{key}", "keyed", key=f"key:{key}") for key in range(5)]
        made += [make_submission(settings.queue, f"s-{number % 10}", "later", execute_at=later)]
        dice.shuffle(made)
        return made

    answers = await asyncio.gather(*(submit_all(database, *batch(number)) for number in range(20)))

    assert sum(not accepted.replayed for batch in answers for accepted in batch) == 20 * 10 + 5 + 20
    for session in range(10):
        placed = [seq for seq in await seqs(database, f"s-{session}") if seq is not None]
        assert placed == list(range(1, 20 + (session < 5) + 1))


# --- schedules


async def test_a_scheduled_turn_has_no_place_before_its_time(database: Database, settings: Settings) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    scheduled, _ = await submit_all(
        database, make_submission(settings.queue, execute_at=later), make_submission(settings.queue)
    )

    assert (scheduled.execute_at, scheduled.wake) == (later, False)
    assert await seqs(database) == [1, None]
    rows = await database.fetch("SELECT send_at, execute_at FROM turns WHERE seq IS NULL", {})
    assert rows == [{"send_at": later, "execute_at": later}]


async def test_a_scheduled_turn_expires_counted_from_its_time(database: Database, settings: Settings) -> None:
    later = datetime.now(UTC) + timedelta(days=1)

    (scheduled,) = await submit_all(
        database, make_submission(settings.queue, execute_at=later, expires_in_seconds=90.0)
    )

    assert scheduled.expires_at == later + timedelta(seconds=90)


async def test_a_time_that_has_passed_means_now(database: Database, settings: Settings) -> None:
    passed = datetime.now(UTC) - timedelta(hours=1)

    (accepted,) = await submit_all(database, make_submission(settings.queue, execute_at=passed))

    assert (accepted.execute_at, accepted.wake) == (None, True)
    assert await seqs(database) == [1]


# --- idempotency


async def test_fifty_equal_requests_at_once_make_one_turn(database: Database, settings: Settings) -> None:
    equal = [make_submission(settings.queue, key=KEY) for _ in range(50)]

    answers = [answer for (answer,) in await asyncio.gather(*(submit_all(database, one) for one in equal))]

    assert len({answer.turn_id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert await seqs(database) == [1]


async def test_equal_requests_in_one_batch_make_one_turn(database: Database, settings: Settings) -> None:
    first, second = await submit_all(database, *(make_submission(settings.queue, key=KEY) for _ in range(2)))

    assert first.turn_id == second.turn_id
    assert (first.replayed, second.replayed) == (False, True)


async def test_a_repeat_gets_the_first_answer_whatever_became_of_the_turn(
    database: Database, settings: Settings
) -> None:
    (first,) = await submit_all(database, make_submission(settings.queue, key=KEY))
    await cancel(database, "t", first.turn_id, CancelReason.USER)

    (again,) = await submit_all(database, make_submission(settings.queue, key=KEY))

    assert again == replace(first, replayed=True, wake=False)


async def test_a_repeat_of_a_scheduled_request_gets_the_first_answer(database: Database, settings: Settings) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    (first,) = await submit_all(database, make_submission(settings.queue, key=KEY, execute_at=later))

    (again,) = await submit_all(database, make_submission(settings.queue, key=KEY, execute_at=later))

    assert again == replace(first, replayed=True)


async def test_the_same_key_with_another_request_is_refused(database: Database, settings: Settings) -> None:
    await submit_all(database, make_submission(settings.queue, content="one", key=KEY))

    refused = await submit_one(database, make_submission(settings.queue, content="two", key=KEY))

    assert isinstance(refused, IdempotencyMismatchError)
    assert refused.key == "once"
    assert await seqs(database) == [1]


async def test_another_tenants_key_is_another_key(database: Database, settings: Settings) -> None:
    answers = await submit_all(
        database, *(make_submission(settings.queue, tenant_id=tenant, key=KEY) for tenant in ("a", "b"))
    )

    assert [answer.replayed for answer in answers] == [False, False]


async def test_a_refusal_fails_alone(database: Database, settings: Settings) -> None:
    await submit_all(database, make_submission(settings.queue, content="one", key=KEY))

    answers = await submit(
        database,
        [
            make_submission(settings.queue),
            make_submission(settings.queue, content="two", key=KEY),
            make_submission(settings.queue),
        ],
        net_seconds=NET,
    )

    assert [isinstance(answer, Accepted) for answer in answers] == [True, False, True]
    assert await seqs(database) == [1, 2, 3]


@pytest.mark.parametrize("keyed", [True, False], ids=["under a key", "without one"])
async def test_a_turn_id_of_another_tenants_turn_is_taken(database: Database, settings: Settings, keyed: bool) -> None:
    taken = uuid4()
    key = turn_id_key(taken) if keyed else None
    await submit_all(database, make_submission(settings.queue, tenant_id="a", turn_id=taken, key=key))

    refused = await submit_one(database, make_submission(settings.queue, tenant_id="b", turn_id=taken, key=key))

    assert isinstance(refused, TurnIdTakenError)
    assert refused.turn_id == taken


@pytest.mark.parametrize("keys", [(None, None), ("key:a", "key:b")], ids=["without keys", "under two keys"])
async def test_a_turn_id_that_stands_twice_in_a_batch_makes_one_turn(
    database: Database, settings: Settings, keys: tuple[str | None, str | None]
) -> None:
    twice = uuid4()

    answers = await submit(
        database, [make_submission(settings.queue, turn_id=twice, key=key) for key in keys], net_seconds=NET
    )

    assert isinstance(answers[0], Accepted)
    assert answers[0].turn_id == twice
    assert isinstance(answers[1], TurnIdTakenError) is (keys[0] is not None)
    assert await seqs(database) == [1]


async def test_a_turn_id_that_came_under_another_key_is_taken(database: Database, settings: Settings) -> None:
    taken = uuid4()
    await submit_all(database, make_submission(settings.queue, turn_id=taken, key="key:a"))

    refused = await submit_one(database, make_submission(settings.queue, turn_id=taken, key="key:b"))

    assert isinstance(refused, TurnIdTakenError)


async def test_an_answer_that_was_lost_is_had_by_asking_again(database: Database, settings: Settings) -> None:
    lost = [make_submission(settings.queue, content=number) for number in range(3)]
    first = await submit_all(database, *lost)

    again = await submit_all(database, *lost)

    assert again == first
    assert [answer.replayed for answer in again] == [False] * 3
    assert [answer.wake for answer in again] == [True] * 3
    assert await seqs(database) == [1, 2, 3]


async def test_a_keyed_answer_that_was_lost_wakes_again(database: Database, settings: Settings) -> None:
    """Perhaps its wake-up was never sent; one too many does no harm."""
    lost = make_submission(settings.queue, key=KEY)
    (first,) = await submit_all(database, lost)

    (again,) = await submit_all(database, lost)

    assert again == replace(first, replayed=True, wake=True)


@pytest.mark.parametrize("key", [None, KEY])
async def test_the_same_submit_twice_at_once_makes_one_turn(
    database: Database, settings: Settings, key: str | None
) -> None:
    """As when the first call is still under way on a connection that was given up. The caller repeats a refused insert."""
    submission = make_submission(settings.queue, key=key)

    async def ask() -> Accepted | SubmissionRefusedError:
        try:
            return await submit_one(database, submission)
        except psycopg.errors.UniqueViolation:
            return await submit_one(database, submission)

    answers = await asyncio.gather(*(ask() for _ in range(10)))

    assert {answer.turn_id for answer in answers if isinstance(answer, Accepted)} == {submission.turn_id}
    assert all(isinstance(answer, Accepted) for answer in answers)
    assert await seqs(database) == [1]


async def test_content_that_postgres_refuses_fails_alone(database: Database, settings: Settings) -> None:
    async def flush(submissions: list[Submission]) -> list[Accepted | SubmissionRefusedError]:
        return await submit(database, submissions, net_seconds=NET)

    call: Batcher[Submission, Accepted | SubmissionRefusedError] = Batcher(flush, limit=10)  # type: ignore[arg-type]
    contents: list[object] = ["one", float("nan"), "three"]

    answers = await asyncio.gather(
        *(call(make_submission(settings.queue, content=content)) for content in contents), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [Accepted, psycopg.errors.InvalidTextRepresentation, Accepted]
    assert await seqs(database) == [1, 2]


async def test_keys_are_forgotten_when_they_are_old_and_not_before(database: Database, settings: Settings) -> None:
    await submit_all(database, *(make_submission(settings.queue, key=f"key:{name}") for name in ("old", "young")))
    await database.fetch("UPDATE submissions SET created_at = now() - interval '2 days' WHERE key = 'key:old'", {})

    await forget_submissions(database, 86_400)

    rows = await database.fetch("SELECT key FROM submissions", {})
    assert [row["key"] for row in rows] == ["key:young"]


@pytest.mark.parametrize(
    "ids", [{"tenant_id": ""}, {"tenant_id": "no good"}, {"session_id": "a/b"}, {"session_id": ""}]
)
def test_a_turn_that_no_message_could_name_cannot_be_recorded(ids: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="tenant_id and session_id must each be"):
        make_submission("turns", **ids)
