"""Redrive on the real Postgres and a real SQS API: killed anywhere, repeated, twice at once."""

import asyncio
import time
from typing import Any

import pytest

from tests.conftest import sqs_client
from tests.ops.dead_turns import make_dead, make_failed, rows, send_dead_letters
from tests.support.factories import make_submission
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_messages import LetterKind
from turnstile.ops.dead_letters.failed_turns import FailedFilter, list_failed
from turnstile.ops.dead_letters.redrive import Pace, Redrive, RedriveResult
from turnstile.statements.submit import submit
from turnstile.turn.wire_format import WakeUp

ALL = FailedFilter()


@pytest.fixture
def redrive(database: Database, queues: MessageQueues, settings: Settings) -> Redrive:
    return Redrive(database, queues, settings, requested_by="ada@test")


async def run(redrive: Redrive, wanted: FailedFilter = ALL, **how: Any) -> RedriveResult:
    return await redrive.run(wanted, await list_failed(redrive._database, wanted), **how)


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
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
    assert (record["sent"], record["unsent"]) == (3, 0)


async def test_the_order_within_a_session_stays_over_many_batches(
    redrive: Redrive, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redrive.BATCH", 3)
    failed = await make_failed(database, settings, ["a"] * 8)

    await run(redrive)

    after = await rows(database)
    places = [after[turn_id]["seq"] for turn_id in failed]
    assert places == sorted(places)


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
    failed = await make_dead(database, queues, settings, [f"s{number % 7}" for number in range(14)])
    other = Redrive(database, queues, settings, requested_by="ada@test")
    failed_turns = await asyncio.gather(list_failed(database, ALL), list_failed(database, ALL))

    results = await asyncio.gather(redrive.run(ALL, failed_turns[0]), other.run(ALL, failed_turns[1]))

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
    turns = await list_failed(database, ALL)
    await redrive.revive(turns, RedriveResult())

    result = await run(redrive)

    assert (result.revived, result.swept) == ([], 2)
    assert await database.fetch("SELECT * FROM redrives", {}) == []
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    await database.fetch("UPDATE turns SET send_at = now()", {})
    await send_dead_letters(database, queues, settings)
    assert await queues.count(settings.queue) == len(failed)


async def test_without_sqs_the_turns_are_put_back_and_the_relay_sends_their_wake_ups(
    database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    gone = settings.model_copy(update={"sqs_endpoint_url": "http://127.0.0.1:1"})
    queues = MessageQueues(gone)

    result = await run(Redrive(database, queues, gone, requested_by="ada@test"))

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


async def test_a_queue_that_sqs_does_not_have_gets_its_wake_ups_by_the_relay_and_its_own_expiry(
    database: Database, queues: MessageQueues, settings: Settings
) -> None:
    missing = QueueSettings(name="missing", expires_in_seconds=7200)
    declared = settings.model_copy(update={"queues": (*settings.queues, missing)})
    await make_failed(database, settings, ["a"], queue="missing")
    of_both = MessageQueues(declared)

    result = await run(Redrive(database, of_both, declared, requested_by="ada@test"))

    await of_both.close()
    assert (result.sent, result.unsent, result.unswept_queues) == (0, 1, ["missing"])
    [row] = (await rows(database)).values()
    assert (row["expires_at"] - row["queued_at"]).total_seconds() == pytest.approx(7200, abs=5)


async def test_the_sweep_deletes_a_wake_up_that_sqs_has_moved_to_the_dead_letter_queue(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    turn = make_submission(settings.queue, "a")
    await submit(database, [turn], resend_seconds=60)
    address = await queues.find(settings.queue)
    body = WakeUp(turn.tenant_id, turn.session_id, turn.turn_id).encode()
    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    result = RedriveResult()
    await redrive.sweep(ALL, result)

    assert (result.letters, result.swept, result.unswept) == ({LetterKind.MOVED_BY_SQS: 1}, 1, 0)


async def test_the_rate_is_kept(redrive: Redrive, database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"] * 3)

    started = time.monotonic()
    result = await run(redrive, pace=Pace(rate=2))

    assert len(result.revived) == 3
    assert time.monotonic() - started >= 1.0


async def test_a_full_dead_letter_queue_is_looked_through_and_left_as_it_was(
    redrive: Redrive, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, [f"s{number}" for number in range(12)])

    result = RedriveResult()
    await redrive.sweep(ALL, result)

    assert (result.letters, result.swept) == ({LetterKind.STILL_DEAD: 12}, 0)
    # Given back, not merely left to their visibility timeout.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 10
