"""Redrive on the real Postgres and a real SQS API: killed anywhere, repeated, twice at once."""

import asyncio
import time
from typing import Any

import pytest

from tests.conftest import sqs_client
from tests.ops.commands.dead_turns import make_dead, make_failed, rows, send_dead_letters
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.letter import LetterKind
from turnstile.ops.dead_letters.redrive import BATCH, Redrive, RedriveResult, find_candidates
from turnstile.queries.failed_turns import FailedFilter, list_failed
from turnstile.statements.submit import submit
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.message import WakeUp

ALL = FailedFilter()


@pytest.fixture
def redrive(database: Database, queues: MessageQueues, settings: Settings) -> Redrive:
    return Redrive(database, queues, settings, requested_by="ada@test")


async def run(redrive: Redrive, wanted: FailedFilter = ALL, **how: Any) -> RedriveResult:
    return await redrive.run(wanted, await find_candidates(redrive._database, wanted), **how)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_failed_turns_are_put_back_and_recorded_and_their_dead_letters_deleted(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "a", "b"])
    before = await rows(database)

    result = await run(redrive, FailedFilter(error_class="ValueError"))

    after = await rows(database)
    assert sorted(result.revived) == sorted(failed)
    assert {(row["status"], row["generation"], row["attempt"], row["error"]) for row in after.values()} == {
        ("PENDING", 2, 0, None)
    }
    assert not {row["trace_id"] for row in after.values()} & {row["trace_id"] for row in before.values()}
    assert (result.sent, result.unsent, result.swept) == (3, 0, 3)
    assert await queues.count(settings.queue) == 3
    assert await queues.count(settings.queue, dead=True) == 0
    (record,) = await database.fetch("SELECT * FROM redrives", {})
    assert (record["id"], record["requested_by"]) == (result.redrive_id, "ada@test")
    assert (record["filter"], sorted(record["turn_ids"])) == ({"error_class": "ValueError"}, sorted(failed))
    assert record["finished_at"] >= record["started_at"]


async def test_the_order_within_a_session_stays_over_many_batches(
    redrive: Redrive, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, ["a"] * (BATCH + 10))

    await run(redrive)

    after = await rows(database)
    places = [after[turn_id]["seq"] for turn_id in failed]
    assert places == sorted(places)


async def test_a_survey_counts_by_error_class_and_changes_nothing(
    redrive: Redrive, database: Database, settings: Settings
) -> None:
    first, *_ = await make_failed(database, settings, ["a", "b"])
    await make_failed(database, settings, ["c"], error_class="KeyError")
    before = await rows(database)

    survey, oldest = await find_candidates(database, ALL), await find_candidates(database, ALL, limit=1)

    finished = [row["finished_at"] for row in before.values()]
    assert survey.by_error_class == {"ValueError": 2, "KeyError": 1}
    assert (survey.oldest, survey.newest) == (min(finished), max(finished))
    assert [candidate.id for candidate in oldest.candidates] == [first]
    assert await rows(database) == before


async def test_turns_outside_of_the_filter_stay_failed_and_keep_their_dead_letters(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await make_dead(database, queues, settings, ["a", "b"])
    (other_class,) = await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    (other_tenant,) = await make_dead(database, queues, settings, ["a"], tenant_id="u")

    results = [
        await run(redrive, wanted)
        for wanted in (
            FailedFilter(error_class="KeyError"),
            FailedFilter(tenant_id="u"),
            FailedFilter(turn_ids=(second,)),
        )
    ]

    assert [result.revived for result in results] == [[other_class], [other_tenant], [second]]
    assert results[-1].letters == {LetterKind.OUTLIVED: 1, LetterKind.STILL_DEAD: 1}
    left = await queues.receive(settings.queue, 10, dead=True)
    assert [str(first) in message.body for message in left] == [True]


async def test_two_at_once_put_each_turn_back_once(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, [f"s{number % 7}" for number in range(60)])
    other = Redrive(database, queues, settings)
    surveys = await asyncio.gather(find_candidates(database, ALL), find_candidates(database, ALL))

    results = await asyncio.gather(redrive.run(ALL, surveys[0]), other.run(ALL, surveys[1]))

    assert sorted(results[0].revived + results[1].revived) == sorted(failed)
    assert results[0].moved_on + results[1].moved_on == len(failed)
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    # Each of the two sweeps may have kept some of the other's letters: one more sweeps those.
    await run(redrive)
    assert await queues.count(settings.queue, dead=True) == 0


async def test_killed_after_the_revive_it_is_finished_by_relay_and_next_redrive(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "b"])
    survey = await find_candidates(database, ALL)
    await redrive.revive(survey.candidates, RedriveResult())

    result = await run(redrive)

    assert (result.revived, result.swept) == ([], 2)
    assert await database.fetch("SELECT * FROM redrives", {}) == []
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    await database.fetch("UPDATE turns SET send_at = now()", {})
    await send_dead_letters(database, queues, settings)
    assert await queues.count(settings.queue) == len(failed)


async def test_a_dead_letter_that_was_sent_late_is_swept_by_the_next_redrive(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    (found,) = await list_failed(database, ALL, limit=1)
    await run(redrive)
    # As of a relay that had read the row before the redrive changed it.
    message = OutgoingMessage(WakeUp(found.tenant_id, found.session_id, found.id), f"00-{found.trace_id}-{'1' * 16}-01")
    letter = DeadLetter(message, "ValueError", attempts=1, fence=1, generation=found.generation)
    await queues.send_dead_letters(settings.queue, [letter])

    result = await run(redrive)

    assert result.letters == {LetterKind.OUTLIVED: 1}
    assert await queues.count(settings.queue, dead=True) == 0


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_dead_letter_that_sqs_refuses_to_delete_is_counted_and_given_back(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])

    result = await run(redrive)

    assert (result.letters, result.swept, result.unswept) == ({LetterKind.OUTLIVED: 3}, 2, 1)
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 1


async def test_a_wake_up_that_sqs_itself_dead_lettered_is_swept_and_its_turn_kept(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings, stack: Any
) -> None:
    submission = make_submission(settings.queue)
    await submit(database, [submission], net_seconds=60)
    address = await queues.find(settings.queue)
    client = sqs_client(stack)
    arn = client.get_queue_attributes(QueueUrl=address.dlq_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "1"}}'
    client.set_queue_attributes(QueueUrl=address.url, Attributes={"RedrivePolicy": policy})
    wake_up = WakeUp(submission.tenant_id, submission.session_id, submission.turn_id)
    await queues.send(settings.queue, [OutgoingMessage(wake_up, submission.trace.traceparent)])

    async def moved() -> bool:
        await queues.give_back(settings.queue, await queues.receive(settings.queue, 1, wait=False))
        return await queues.count(settings.queue, dead=True) == 1

    await until(moved)
    result = await run(redrive)

    assert result.letters == {LetterKind.MOVED_BY_SQS: 1}
    assert await queues.count(settings.queue, dead=True) == 0
    assert (await rows(database))[submission.turn_id]["send_at"] is not None


async def test_without_sqs_the_turns_are_put_back_and_the_relay_sends_their_wake_ups(
    database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    gone = settings.model_copy(update={"sqs_endpoint_url": "http://127.0.0.1:1"})
    queues = MessageQueues(gone)

    result = await run(Redrive(database, queues, gone))

    await queues.close()
    assert (len(result.revived), result.sent, result.unsent) == (2, 0, 2)
    assert result.unswept_queues == [settings.queue]
    assert all(row["send_at"] for row in (await rows(database)).values())


async def test_turns_of_a_queue_that_is_not_declared_are_left_alone(
    redrive: Redrive, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"], queue="elsewhere")

    result = await run(redrive)

    assert (result.revived, result.undeclared) == ([], {"elsewhere": 1})
    assert {row["status"] for row in (await rows(database)).values()} == {"FAILED"}


async def test_the_rate_is_kept(redrive: Redrive, database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"] * 3)

    started = time.monotonic()
    result = await run(redrive, rate=2)

    assert len(result.revived) == 3
    assert time.monotonic() - started >= 1.0


async def test_a_full_dead_letter_queue_is_looked_through_and_left_as_it_was(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, [f"s{number}" for number in range(35)])

    result = RedriveResult()
    await redrive.sweep(ALL, result)

    assert (result.letters, result.swept) == ({LetterKind.STILL_DEAD: 35}, 0)
    # Given back, not merely left to their visibility timeout.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 10
