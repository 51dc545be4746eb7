"""`turnstile redrive`, `dlq list` and `queues create`; the questions of all commands; commands that are stopped."""

import asyncio
import errno
import json
import os
import signal
import sys
from datetime import datetime
from unittest.mock import Mock
from uuid import uuid4

import pytest

from tests.archive.archiving import age, end_turn
from tests.conftest import sqs_client
from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_dead, make_failed, rows
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import FRUITLESS, make_pending, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp


async def test_a_command_that_changes_something_asks_first_and_without_a_terminal_is_refused(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await end_turn(database, settings, "old")
    await age(database)
    (failed,) = await make_failed(database, settings, ["a"])
    (halting,) = await make_failed(database, settings, ["b"], halt=True)
    await make_pending(database, settings, "c")
    await tamper(settings, FRUITLESS)
    before = await rows(database)

    asked = [
        await turnstile(*words)
        for words in (
            ("redrive", "--turn", str(failed)),
            ("retry", str(halting)),
            ("skip", str(halting)),
            ("archive", "--older-than=90d"),
            ("migrate", "--down", "--revision", "base"),
            ("doctor", "--fix", "--no-dlq"),
        )
    ]

    assert [ran.code for ran in asked] == [2] * len(asked)
    assert all("There is no terminal to answer: give --yes" in ran.err for ran in asked)
    assert "1 FAILED turn (" in asked[0].err
    assert await rows(database) == before


async def test_dead_letters_are_listed_from_the_table_and_on_request_from_the_queue(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings, stack: Stack
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    address = await queues.find(settings.queue)
    unknown = OutgoingMessage(WakeUp("t", "s", uuid4()), "").wake_up.encode()
    for body in ("not ours", unknown):
        sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody=body)

    listed = await turnstile("dlq", "list", "--error", "KeyError", "--json")
    looked = json.loads((await turnstile("dlq", "list", "--messages", "--show-text", "--json")).out)["messages"]

    assert [turn["session_id"] for turn in json.loads(listed.out)["turns"]] == ["c"]
    assert json.loads(listed.out)["queues"] == [{"queue": settings.queue, "messages": 5}]
    assert sorted(message["kind"] for message in looked) == [
        *("malformed", "still_dead", "still_dead", "still_dead", "unknown_turn")
    ]
    assert {message["body"] for message in looked} == {None, "not ours"}
    # All of them were given back.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 5


async def test_a_dry_run_of_redrive_says_what_it_would_do_and_changes_nothing(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "b"])
    failed += await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    before = await rows(database)

    ran = await turnstile("redrive", "--dry-run", "--json")
    oldest = await turnstile("redrive", "--dry-run", "--json", "--limit", "1")

    document = json.loads(ran.out)
    finished = [row["finished_at"] for row in before.values()]
    assert (ran.code, document["dry_run"], document["matched"], document["revived"]) == (0, True, 3, 0)
    assert document["by_error_class"] == {"ValueError": 2, "KeyError": 1}
    assert datetime.fromisoformat(document["oldest"]) == min(finished)
    assert datetime.fromisoformat(document["newest"]) == max(finished)
    assert document["turn_ids"] == [str(turn) for turn in failed]
    assert json.loads(oldest.out)["turn_ids"] == [str(failed[0])]
    assert await rows(database) == before
    assert await queues.count(settings.queue, dead=True) == 3
    assert await database.fetch("SELECT * FROM redrives", {}) == []


async def test_redrive_puts_named_turns_back_which_both_traces_find(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await make_dead(database, queues, settings, ["a", "b"])
    earlier = (await rows(database))[second]["trace_id"]

    ran = await turnstile("redrive", "--turn", str(second), "--yes", "--json")
    again = await turnstile("redrive", "--turn", str(second), "--yes", "--json")
    unknown = await turnstile("redrive", "--turn", str(uuid4()), "--turn", str(first), "--yes")

    document = json.loads(ran.out)
    assert (ran.code, document["turn_ids"], document["sent"], document["swept"]) == (0, [str(second)], 1, 1)
    assert (again.code, json.loads(again.out)["revived"]) == (1, 0)
    assert "PENDING: left as it is" in again.err
    assert unknown.code == 3
    assert (await rows(database))[first]["status"] == "FAILED"
    new = (await rows(database))[second]["trace_id"]
    for asked, other in ((earlier, new), (new, earlier)):
        [turn] = json.loads((await turnstile("trace", asked, "--json")).out)["turns"]
        assert (turn["id"], turn["other_traces"]) == (str(second), [other])


@pytest.mark.usefixtures("one_deletion_is_refused")
async def test_redrive_says_how_many_dead_letters_sqs_did_not_delete(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])

    ran = await turnstile("redrive", "--yes", "--json")

    assert ran.code == 0
    assert {name: json.loads(ran.out)[name] for name in ("swept", "unswept")} == {"swept": 2, "unswept": 1}
    assert "SQS did not delete 1 dead letter," in ran.err


async def test_redrive_can_be_stopped_and_the_next_one_finishes(
    turnstile: Turnstile,
    environment: dict[str, str],
    database: Database,
    queues: MessageQueues,
    settings: Settings,
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstile.ops.main", "redrive", "--yes", "--rate", "0.2/s"),
        env=environment,
    )

    async def begun() -> bool:
        return any(row["status"] == "PENDING" for row in (await rows(database)).values())

    await until(begun)
    process.send_signal(signal.SIGTERM)
    code = await process.wait()
    ran = await turnstile("redrive", "--yes", "--json")

    assert code == 143
    assert json.loads(ran.out)["revived"] == 2
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    assert await queues.count(settings.queue, dead=True) == 0
    records = await database.fetch("SELECT finished_at IS NULL AS cut_short FROM redrives ORDER BY id", {})
    assert [record["cut_short"] for record in records] == [True, False]


@pytest.mark.usefixtures("interruptible")
async def test_a_redrive_that_is_broken_off_says_how_far_it_came_and_is_recorded_so(
    turnstile: Turnstile, environment: dict[str, str], database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b", "c"])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstile.ops.main", "redrive", "--yes", "--rate", "0.2/s"),
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )

    async def noted() -> bool:
        [record] = await database.fetch("SELECT turn_ids FROM redrives", {}) or [{"turn_ids": []}]
        return bool(record["turn_ids"])

    await until(noted)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    [entry] = json.loads((await turnstile("redrives", "--json")).out)["redrives"]

    assert process.returncode == 130
    assert err.decode().splitlines() == ["broken off: 1 of 3 turns put back", "turnstile: interrupted"]
    assert (entry["outcome"], entry["matched"], entry["turns"], entry["left_alone"]) == ("broken_off", 3, 1, 2)
    assert (entry["reason"], entry["finished_at"]) == ("interrupted", None)


@pytest.mark.usefixtures("interruptible")
async def test_ctrl_c_at_the_question_ends_the_command(
    environment: dict[str, str], database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    keyboard, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstile.ops.main", "redrive"),
        env=environment,
        stdin=terminal,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    asked = await process.stderr.readuntil(b"[y/N] ")
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    os.close(keyboard)
    os.close(terminal)

    assert b"1 FAILED turn (" in asked
    assert (process.returncode, err) == (130, b"turnstile: interrupted\n")
    assert {row["status"] for row in (await rows(database)).values()} == {"FAILED"}


@pytest.mark.not_on("aws", "it makes queues")
async def test_declared_queues_are_made_once_with_their_dead_letter_queues(turnstile: Turnstile) -> None:
    name = f"made-{uuid4().hex[:8]}"
    declared = json.dumps([{"name": name}, {"name": f"{name}-ordered", "sqs": f"{name}.fifo", "dlq": f"{name}-d.fifo"}])

    first = await turnstile("queues", "create", "--json", TURNSTILE_QUEUES=declared)
    again = await turnstile(
        "queues", "create", "--json", TURNSTILE_QUEUES=declared.replace("}", ', "visibility_seconds": 90}')
    )

    made = json.loads(first.out)
    assert (first.code, again.code) == (0, 0)
    assert [queue["dlq_url"].rsplit("/")[-1] for queue in made] == [f"{name}-dlq", f"{name}-d.fifo"]
    assert json.loads(again.out) == made


async def test_a_reader_that_closes_the_pipe_gets_no_error_message(
    turnstile: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = BrokenPipeError(errno.EPIPE, "Broken pipe")
    monkeypatch.setattr("turnstile.ops.turns.list_command.print_json", Mock(side_effect=closed))

    assert (await turnstile("list", "--json")).err == ""
