"""Redrive on the real Postgres and a real SQS API: killed anywhere, repeated, twice at once."""

import asyncio
import json
import time
from typing import Any
from uuid import uuid4

import pytest

from tests.conftest import sqs_client
from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead, make_failed, rows, send_dead_letters
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.redrive import BATCH, Redrive, RedriveResult, find_candidates
from turnstile.ops.dead_letters.verdict import Verdict
from turnstile.queries.failed_turns import FailedFilter, list_failed
from turnstile.statements.submit import submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp

ALL = FailedFilter()


@pytest.fixture
def redrive(database: Database, queues: MessageQueues, settings: Settings) -> Redrive:
    return Redrive(database, queues, settings, requested_by="ada@test")


async def run(redrive: Redrive, wanted: FailedFilter = ALL, **how: Any) -> RedriveResult:
    return await redrive.run(wanted, await find_candidates(redrive._database, wanted), **how)


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_dead_letter_that_sqs_refuses_to_delete_is_not_called_swept_and_given_back(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])

    result = await run(redrive)

    assert (result.letters, result.swept, result.unswept) == ({Verdict.OUTLIVED: 3}, 2, 1)
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 1


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_the_command_tells_how_many_letters_were_refused(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])

    ran = await turnstile("redrive", "--yes", "--json")

    assert ran.code == 0
    assert {name: json.loads(ran.out)[name] for name in ("swept", "unswept")} == {"swept": 2, "unswept": 1}
    assert "SQS did not delete 1 dead letters" in ran.err


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_failed_turns_go_back_to_work_and_their_dead_letters_away(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "a", "b"])
    before = await rows(database)

    result = await run(redrive)

    after = await rows(database)
    assert sorted(result.revived) == sorted(failed)
    assert {(row["status"], row["generation"], row["attempt"], row["error"]) for row in after.values()} == {
        ("PENDING", 2, 0, None)
    }
    assert not {row["trace_id"] for row in after.values()} & {row["trace_id"] for row in before.values()}
    assert (result.sent, result.unsent, result.swept) == (3, 0, 3)
    assert await queues.count(settings.queue) == 3
    assert await queues.count(settings.queue, dead=True) == 0


async def test_a_redriven_turn_is_shown_under_its_earlier_trace_and_under_the_new_one(
    turnstile: Turnstile, redrive: Redrive, database: Database, settings: Settings
) -> None:
    [failed] = await make_failed(database, settings, ["a"])
    earlier = (await rows(database))[failed]["trace_id"]
    await run(redrive)
    new = (await rows(database))[failed]["trace_id"]

    for asked, other in ((earlier, new), (new, earlier)):
        ran = await turnstile("trace", asked, COLUMNS="300")
        shown = json.loads((await turnstile("trace", asked, "--json")).out)

        assert ran.code == 0
        assert (str(failed) in ran.out, other in ran.out, asked in ran.out) == (True, True, False)
        assert [(turn["id"], turn["other_traces"]) for turn in shown["turns"]] == [(str(failed), [other])]


async def test_the_order_within_a_session_stays_over_many_batches(
    redrive: Redrive, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, ["a"] * (BATCH + 10))

    await run(redrive)

    after = await rows(database)
    places = [after[turn_id]["seq"] for turn_id in failed]
    assert places == sorted(places)


async def test_a_survey_tells_what_there_is_and_changes_nothing(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    before = await rows(database)

    survey = await find_candidates(database, ALL)

    finished = [row["finished_at"] for row in before.values()]
    assert survey.by_error_class == {"ValueError": 2, "KeyError": 1}
    assert (survey.oldest, survey.newest) == (min(finished), max(finished))
    assert await rows(database) == before
    assert await queues.count(settings.queue, dead=True) == 3


async def test_only_what_the_filter_names_is_put_back(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await make_dead(database, queues, settings, ["a", "b"])
    (other_class,) = await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    (other_tenant,) = await make_dead(database, queues, settings, ["a"], tenant_id="u")

    assert (await run(redrive, FailedFilter(error_class="KeyError"))).revived == [other_class]
    assert (await run(redrive, FailedFilter(tenant_id="u"))).revived == [other_tenant]
    assert (await run(redrive, FailedFilter(turn_ids=(second,)))).revived == [second]
    assert [candidate.id for candidate in (await find_candidates(database, ALL, limit=1)).candidates] == [first]


async def test_what_stays_failed_keeps_its_dead_letter(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await make_dead(database, queues, settings, ["a", "b"])

    result = await run(redrive, FailedFilter(turn_ids=(first,)))

    left = await queues.receive(settings.queue, 10, dead=True)
    assert result.letters == {Verdict.OUTLIVED: 1, Verdict.STILL_DEAD: 1}
    assert [str(second) in message.body for message in left] == [True]


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
    # The two sweeps may each have held some of the other's letters: one more finds nothing left to do but those.
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
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    await database.fetch("UPDATE turns SET send_at = now()", {})
    await send_dead_letters(database, queues, settings)
    assert await queues.count(settings.queue) == len(failed)


async def test_killed_in_the_middle_of_a_slow_run_the_rest_is_done_by_the_next(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, [f"s{number}" for number in range(6)])
    survey = await find_candidates(database, ALL)
    slow = asyncio.create_task(redrive.run(ALL, survey, rate=0.5))

    async def first_is_back() -> bool:
        return any(row["status"] == "PENDING" for row in (await rows(database)).values())

    await until(first_is_back)
    slow.cancel()
    await asyncio.wait({slow})
    result = await run(redrive)

    assert 0 < len(result.revived) < len(failed)
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    assert await queues.count(settings.queue, dead=True) == 0
    records = await database.fetch("SELECT finished_at IS NULL AS cut FROM redrives ORDER BY id", {})
    assert [record["cut"] for record in records] == [True, False]


async def test_a_dead_letter_that_was_sent_late_is_swept_by_the_next_redrive(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    [found] = [turn async for turn in list_failed(database, ALL, limit=1)]
    # As a relay that had taken the row before the redrive did.
    late = Redrive(database, queues, settings)
    await run(late)
    await send_stale_letter(queues, settings, found)

    result = await run(redrive)

    assert result.letters == {Verdict.OUTLIVED: 1}
    assert await queues.count(settings.queue, dead=True) == 0


async def send_stale_letter(queues: MessageQueues, settings: Settings, found: Any) -> None:
    from turnstile.turn.envelope import DeadLetter

    wake_up = WakeUp(found.tenant_id, found.session_id, found.id)
    message = OutgoingMessage(wake_up, f"00-{found.trace_id}-{'1' * 16}-01")
    letter = DeadLetter(message, "ValueError", attempts=1, fence=1, generation=found.generation)
    await queues.send_dead_letters(settings.queue, [letter])


async def test_malformed_messages_and_unknown_turns_stay_for_people(
    redrive: Redrive, queues: MessageQueues, settings: Settings, stack: Any
) -> None:
    address = await queues.find(settings.queue)
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody="not ours")
    stranger = OutgoingMessage(WakeUp("t", "s", uuid4()), "")
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=stranger.wake_up.encode())

    first, second = await run(redrive), await run(redrive)

    assert first.letters == second.letters == {Verdict.MALFORMED: 1, Verdict.UNKNOWN_TURN: 1}
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 2


async def test_a_wake_up_that_sqs_itself_dead_lettered_is_only_a_hint(
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
        await queues.give_back(settings.queue, await queues.receive(settings.queue, 1))
        return await queues.count(settings.queue, dead=True) == 1

    await until(moved)
    result = await run(redrive)

    assert result.letters == {Verdict.MOVED_BY_SQS: 1}
    assert await queues.count(settings.queue, dead=True) == 0
    assert (await rows(database))[submission.turn_id]["send_at"] is not None


async def test_without_sqs_the_rows_carry_what_is_owed(database: Database, settings: Settings) -> None:
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
    await make_failed(database, settings, ["a"] * 11)

    started = time.monotonic()
    result = await run(redrive, rate=10)

    assert len(result.revived) == 11
    assert time.monotonic() - started >= 1.0


async def test_who_put_back_what_goes_on_record(redrive: Redrive, database: Database, settings: Settings) -> None:
    failed = await make_failed(database, settings, ["a", "b"])

    result = await run(redrive, FailedFilter(error_class="ValueError", turn_ids=tuple(failed)))

    (record,) = await database.fetch("SELECT * FROM redrives", {})
    assert (record["id"], record["requested_by"]) == (result.redrive_id, "ada@test")
    assert record["filter"] == {"error_class": "ValueError", "turn_ids": [str(turn_id) for turn_id in failed]}
    assert sorted(record["turn_ids"]) == sorted(failed)
    assert record["finished_at"] >= record["started_at"]


async def test_a_redrive_of_nothing_leaves_no_record(redrive: Redrive, database: Database) -> None:
    await run(redrive)

    assert await database.fetch("SELECT * FROM redrives", {}) == []


async def test_a_full_dead_letter_queue_is_looked_through_and_left_as_it_was(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings, queue: QueueSettings
) -> None:
    await make_dead(database, queues, settings, [f"s{number}" for number in range(35)])

    result = RedriveResult()
    await redrive.sweep(FailedFilter(queue=queue.name), result)

    assert result.letters == {Verdict.STILL_DEAD: 35}
    assert result.swept == 0
    # Given back, not merely left to their visibility timeout.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 10
