"""`turnstile dlq drop`: an operator gives FAILED turns up, or deletes messages that can't be read. `dlq list --groups`."""

import json
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest

from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed, rows, send_dead_letters
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.rowless import delete_rowless, pick_malformed, read_rowless
from turnstile.queries.attention import read_attention
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp


async def test_dropped_turns_stay_failed_lose_their_dead_letters_and_silence_the_alarms(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    dropped, other = await make_dead(database, queues, settings, ["a", "b"])

    refused = await turnstile("dlq", "drop", "--session", "a")
    ran = await turnstile("dlq", "drop", "--session", "a", "--yes", "--json")
    listed = json.loads((await turnstile("dlq", "list", "--json")).out)["turns"]
    asked = json.loads((await turnstile("dlq", "list", "--dropped", "--json")).out)["turns"]

    assert (refused.code, "1 FAILED turn (session a)" in refused.err) == (2, True)
    document = json.loads(ran.out)
    assert (ran.code, document["matched"], document["dropped"], document["swept"]) == (0, 1, 1, 1)
    assert [turn["id"] for turn in listed] == [str(other)]
    assert [turn["id"] for turn in asked] == [str(dropped)]
    assert "@" in asked[0]["dropped_by"]
    assert (await rows(database))[dropped]["status"] == "FAILED"
    [left] = await queues.receive(settings.queue, 10, dead=True)
    assert str(other) in left.body

    await turnstile("dlq", "drop", "--yes")

    [quiet] = await read_attention(database, [settings.queue], lately_seconds=300)
    assert (quiet.failed_lately, quiet.needs_operator) == (0, False)
    # For some minutes: SQS counts with a delay.
    assert quiet.letters == 2
    await database.fetch("UPDATE redrives SET finished_at = finished_at - interval '11 minutes'", {})
    [quiet] = await read_attention(database, [settings.queue], lately_seconds=300)
    assert quiet.letters == 0


async def test_an_owed_dead_letter_of_a_dropped_turn_is_not_sent(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])

    await turnstile("dlq", "drop", "--yes")
    await send_dead_letters(database, queues, settings)

    assert await queues.count(settings.queue, dead=True) == 0


async def test_a_redrive_leaves_dropped_turns_alone_unless_it_names_them(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])
    await turnstile("dlq", "drop", "--yes")

    everything = await turnstile("redrive", "--yes", "--json")
    named = await turnstile("redrive", "--turn", str(failed), "--yes", "--json")

    assert json.loads(everything.out)["matched"] == 0
    assert json.loads(named.out)["revived"] == 1


async def test_without_sqs_the_turns_are_dropped_and_the_letters_named(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    (failed,) = await make_dead(database, queues, settings, ["a"])

    ran = await turnstile("dlq", "drop", "--yes", AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1")
    swept = await turnstile("doctor", "--fix", "--yes", "--json")

    assert ran.code == 0
    assert f"the dead letters of {settings.queue} are not all deleted" in ran.err
    assert (await rows(database))[failed]["dropped_at"] is not None
    assert "dead-letters-outlived" in swept.out
    assert await queues.count(settings.queue, dead=True) == 0


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_a_letter_that_sqs_does_not_delete_is_named(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])

    ran = await turnstile("dlq", "drop", "--yes", "--json")

    assert (ran.code, json.loads(ran.out)["unswept_queues"]) == (0, [settings.queue])


async def test_a_drop_of_several_batches_gives_up_every_turn(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.drop_failed.BATCH", 2)
    failed = await make_failed(database, settings, ["a", "b", "c"])

    ran = await turnstile("dlq", "drop", "--yes", "--json")

    assert sorted(json.loads(ran.out)["turn_ids"]) == sorted(map(str, failed))


async def test_a_drop_that_breaks_off_is_recorded_so(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_failed(database, settings, ["a"])
    away = AsyncMock(side_effect=DatabaseUnavailableError("gone"))
    monkeypatch.setattr("turnstile.ops.dead_letters.drop_failed.drop_failed", away)

    ran = await turnstile("dlq", "drop", "--yes")
    [entry] = json.loads((await turnstile("redrives", "--json")).out)["redrives"]

    assert (ran.code, entry["action"], entry["outcome"]) == (4, "drop", "broken_off")
    assert entry["reason"] == "DatabaseUnavailableError"


async def test_a_malformed_message_that_came_after_the_look_stays(
    queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    for body in ("seen", "came later"):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)
    ids = {message.body: message.message_id async for message in read_rowless(queues, settings.queue, pick_malformed)}

    deleted = await delete_rowless(queues, settings.queue, [ids["seen"]], pick_malformed)

    left = [message.body for message in await queues.receive(settings.queue, 10, dead=True)]
    assert (deleted, left) == (1, ["came later"])


async def test_malformed_messages_are_deleted_after_a_question_and_no_others(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    await make_dead(database, queues, settings, ["a"])
    address = await queues.find(settings.queue)
    unknown = OutgoingMessage(WakeUp("t", "s", uuid4()), "").wake_up.encode()
    for body in ("not ours", "nor this", unknown):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    asked = await turnstile("dlq", "drop", "--malformed")
    dry = await turnstile("dlq", "drop", "--malformed", "--dry-run", "--json")
    ran = await turnstile("dlq", "drop", "--malformed", "--queue", settings.queue, "--yes", "--json")

    assert asked.code == 2
    assert f"2 malformed messages ({settings.queue} 2). No other copy exists" in asked.err
    assert "turnstile dlq export --malformed --show-text FILE" in asked.err
    assert json.loads(dry.out) == {"dry_run": True, "matched": 2, "deleted": 0}
    assert (ran.code, json.loads(ran.out)) == (0, {"dry_run": False, "matched": 2, "deleted": 2})
    left = [message.body for message in await queues.receive(settings.queue, 10, dead=True)]
    assert (len(left), unknown in left) == (2, True)


async def test_messages_of_unknown_turns_are_deleted_after_a_question_and_no_others(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    await make_dead(database, queues, settings, ["a"])
    address = await queues.find(settings.queue)
    for body in ("not ours", WakeUp("t", "s", uuid4()).encode()):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    asked = await turnstile("dlq", "drop", "--unknown")
    dry = await turnstile("dlq", "drop", "--unknown", "--dry-run")
    ran = await turnstile("dlq", "drop", "--unknown", "--yes", "--json")
    again = await turnstile("dlq", "drop", "--unknown", "--yes")

    assert asked.code == 2
    assert f"1 message of unknown turns ({settings.queue} 1). Their turns are not in this database" in asked.err
    assert dry.out == f"would delete 1 message of unknown turns ({settings.queue} 1)\n"
    assert (ran.code, json.loads(ran.out)) == (0, {"dry_run": False, "matched": 1, "deleted": 1})
    assert again.err == "no message of an unknown turn is on the dead-letter queues\n"
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 2, (
        "the letter of a FAILED turn, and a malformed one"
    )


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_malformed_messages_that_sqs_does_not_delete_end_the_command_with_1(
    turnstile: Turnstile, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    address = await queues.find(settings.queue)
    for body in ("not ours", "nor this"):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    dry = await turnstile("dlq", "drop", "--malformed", "--dry-run")
    ran = await turnstile("dlq", "drop", "--malformed", "--yes")

    assert (dry.code, dry.out) == (0, f"would delete 2 malformed messages ({settings.queue} 2)\n")
    assert (ran.code, ran.out) == (1, "1 of 2 malformed messages deleted\n")
    assert ran.err == "SQS did not delete 1 of them; run it again\n"


@pytest.mark.parametrize("command", ["drop --yes", "export -"])
async def test_malformed_messages_are_not_chosen_by_what_turns_are_chosen_by(
    turnstile: Turnstile, command: str
) -> None:
    ran = await turnstile("dlq", *command.split(), "--malformed", "--session", "a")

    assert (ran.code, "--malformed goes with --queue only" in ran.err) == (2, True)


async def test_messages_of_unknown_turns_are_not_chosen_together_with_malformed_ones(turnstile: Turnstile) -> None:
    ran = await turnstile("dlq", "drop", "--yes", "--malformed", "--unknown")

    assert (ran.code, "--unknown goes with --queue only" in ran.err) == (2, True)


async def test_failed_turns_are_counted_by_queue_and_class(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    first, *_, last = await make_failed(database, settings, ["a", "b", "c"])
    await make_failed(database, settings, ["a"], tenant_id="u")
    await make_failed(database, settings, ["d"], error_class="timeout")
    await make_failed(database, settings, ["e"], halt=True)
    times = {turn_id: row["finished_at"] for turn_id, row in (await rows(database)).items()}

    groups = json.loads((await turnstile("dlq", "list", "--groups", "--json")).out)["groups"]
    of_tenant = json.loads((await turnstile("dlq", "list", "--groups", "--json", "--tenant", "t")).out)["groups"]
    table = (await turnstile("dlq", "list", "--groups")).out

    assert [(one["queue"], one["error_class"], one["turns"], one["tenants"]) for one in groups] == [
        (settings.queue, "ValueError", 4, 2),
        (settings.queue, "timeout", 1, 1),
    ]
    assert [(one["error_class"], one["turns"]) for one in of_tenant] == [("ValueError", 3), ("timeout", 1)]
    seen = (of_tenant[0]["first_failed_at"], of_tenant[0]["last_failed_at"])
    assert seen == tuple(times[turn].isoformat().replace("+00:00", "Z") for turn in (first, last))
    assert "ValueError" in table
