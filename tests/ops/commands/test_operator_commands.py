"""The operator's commands on the real stack: what they print, what they change, how they end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from uuid import uuid4

import pytest

from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_dead, make_failed, rows
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import submit


async def test_turns_of_all_tenants_are_listed_and_filtered(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue, "a")], net_seconds=60)
    await submit(database, [make_submission(settings.queue, "b", tenant_id="u")], net_seconds=60)
    await make_failed(database, settings, ["c"])

    every, failed, tenant = await asyncio.gather(
        turnstile("list", "--json"),
        turnstile("list", "--json", "--status", "failed"),
        turnstile("list", "--json", "--tenant", "u", "--queue", settings.queue, "--limit", "1"),
    )

    assert [turn["session_id"] for turn in json.loads(every.out)["turns"]] == ["c", "b", "a"]
    assert [turn["session_id"] for turn in json.loads(failed.out)["turns"]] == ["c"]
    assert [turn["session_id"] for turn in json.loads(tenant.out)["turns"]] == ["b"]


async def test_what_was_said_is_shown_only_on_request(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    submission = make_submission(settings.queue, "a", "a canary sings")
    await submit(database, [submission], net_seconds=60)
    turn = str(submission.turn_id)

    ran = await asyncio.gather(
        turnstile("status", turn),
        turnstile("status", turn, "--json"),
        turnstile("status", turn, "--show-text"),
        turnstile("list"),
    )

    assert ["canary" in one.out for one in ran] == [False, False, True, False]
    assert json.loads(ran[1].out)["turn"]["status"] == "PENDING"


async def test_a_failed_turn_shows_its_attempts_and_its_error(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (turn,) = await make_failed(database, settings, ["a"])

    status, dead, nobody = await asyncio.gather(
        turnstile("status", str(turn), "--json"),
        turnstile("dlq", "show", str(turn)),
        turnstile("dlq", "show", str(uuid4())),
    )

    (attempt,) = json.loads(status.out)["attempts"]
    assert (attempt["outcome"], attempt["error_class"]) == ("failed", "ValueError")
    assert "it would not do" in dead.out
    assert (nobody.code, nobody.out) == (3, "")


async def test_a_turn_that_has_not_failed_is_no_dead_letter(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    waiting = make_submission(settings.queue)
    await submit(database, [waiting], net_seconds=60)

    ran = await turnstile("dlq", "show", str(waiting.turn_id))

    assert (ran.code, ran.out) == (3, "")
    assert f"{waiting.turn_id} is PENDING, not FAILED" in ran.err


async def test_cancel_session_ends_all_that_is_open_in_it(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    wanted = [make_submission(settings.queue, "a", tenant_id="u") for _ in range(2)]
    await submit(database, wanted, net_seconds=60)

    ran = await turnstile("cancel", "--session", "a", "--tenant", "u", "--json")
    unknown, neither, both = await asyncio.gather(
        turnstile("cancel", "--session", "a"),
        turnstile("cancel"),
        turnstile("cancel", str(wanted[0].turn_id), "--session", "a"),
    )

    assert json.loads(ran.out) == {"session_id": "a", "canceled": 2, "stopping": 0}
    assert {row["status"] for row in (await rows(database)).values()} == {"CANCELED"}
    assert [one.code for one in (ran, unknown, neither, both)] == [0, 3, 2, 2]
    assert "tenant default has no session a" in unknown.err


async def test_cancel_ends_a_waiting_turn_wakes_the_next_and_is_refused_for_one_that_ended(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = make_submission(settings.queue), make_submission(settings.queue)
    await submit(database, [first, second], net_seconds=60)
    (failed,) = await make_failed(database, settings, ["z"])

    ran = await turnstile("cancel", str(first.turn_id), "--json")
    again, late = await asyncio.gather(turnstile("cancel", str(first.turn_id)), turnstile("cancel", str(failed)))

    assert (ran.code, json.loads(ran.out)["status"]) == (0, "CANCELED")
    assert (again.code, late.code) == (0, 1)
    (message,) = await queues.receive(settings.queue, 10)
    assert str(second.turn_id) in message.body


async def test_dead_letters_are_listed_from_the_table_and_on_request_from_the_queue(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await make_dead(database, queues, settings, ["a", "b"])
    address = await queues.find(settings.queue)
    await make_dead(database, queues, settings, ["c"], error_class="KeyError")
    received = await queues.receive(settings.queue, 1, dead=True)
    await queues.give_back(settings.queue, received, dead=True)
    await queues.dead_letter_malformed(settings.queue, received[0], "for the test")

    listed = await turnstile("dlq", "list", "--error", "KeyError", "--json")
    looked = await turnstile("dlq", "list", "--messages", "--json")

    assert [turn["session_id"] for turn in json.loads(listed.out)["turns"]] == ["c"]
    assert json.loads(listed.out)["queues"] == [{"queue": settings.queue, "messages": 4}]
    kinds = [message["kind"] for message in json.loads(looked.out)["messages"]]
    assert len(kinds) == 4
    assert address.dlq_url
    # All of them were given back.
    assert len(await queues.receive(settings.queue, 10, dead=True)) == 4


async def test_a_dry_run_of_redrive_says_what_it_would_do_and_changes_nothing(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    failed = await make_dead(database, queues, settings, ["a", "b"])
    before = await rows(database)

    ran = await turnstile("redrive", "--dry-run", "--json")

    document = json.loads(ran.out)
    assert (ran.code, document["dry_run"], document["matched"], document["revived"]) == (0, True, 2, 0)
    assert document["turn_ids"] == [str(turn) for turn in failed]
    assert await rows(database) == before
    assert await queues.count(settings.queue, dead=True) == 2
    assert await database.fetch("SELECT * FROM redrives", {}) == []


async def test_redrive_asks_first_and_does_nothing_when_nobody_answers(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])

    ran = await turnstile("redrive")

    assert ran.code == 2
    assert "1 FAILED turns" in ran.err
    assert {row["status"] for row in (await rows(database)).values()} == {"FAILED"}


async def test_redrive_puts_named_turns_back_and_says_so_in_json(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await make_dead(database, queues, settings, ["a", "b"])

    ran = await turnstile("redrive", "--turn", str(second), "--yes", "--json")
    again = await turnstile("redrive", "--turn", str(second), "--yes", "--json")
    nobody = await turnstile("redrive", "--turn", str(uuid4()), "--turn", str(first), "--yes")

    document = json.loads(ran.out)
    assert (ran.code, document["turn_ids"], document["sent"], document["swept"]) == (0, [str(second)], 1, 1)
    assert (again.code, json.loads(again.out)["revived"]) == (0, 0)
    assert "PENDING: left as it is" in again.err
    assert nobody.code == 3
    assert (await rows(database))[first]["status"] == "FAILED"


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, ["turnstile: interrupted"]), (signal.SIGTERM, 143, [])]
)
async def test_redrive_can_be_stopped_and_the_next_one_finishes(
    turnstile: Turnstile,
    environment: dict[str, str],
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    number: signal.Signals,
    code: int,
    said: list[str],
) -> None:
    await make_dead(database, queues, settings, ["a", "b", "c"])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstile.ops.cli", "redrive", "--yes", "--rate", "0.2/s"),
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )

    async def begun() -> bool:
        return any(row["status"] == "PENDING" for row in (await rows(database)).values())

    await until(begun)
    process.send_signal(number)
    _, err = await process.communicate()
    ran = await turnstile("redrive", "--yes", "--json")

    assert (process.returncode, err.decode().splitlines()) == (code, said)
    assert json.loads(ran.out)["revived"] == 2
    assert {row["generation"] for row in (await rows(database)).values()} == {2}
    assert await queues.count(settings.queue, dead=True) == 0


@pytest.mark.usefixtures("interruptible")
async def test_ctrl_c_at_the_question_is_an_answer(
    environment: dict[str, str], database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    keyboard, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstile.ops.cli", "redrive"),
        env=environment,
        stdin=terminal,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    asked = await process.stderr.readuntil(b"[y/N] ")
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 20)
    os.close(keyboard)
    os.close(terminal)

    assert b"1 FAILED turns" in asked
    assert (process.returncode, err) == (130, b"turnstile: interrupted\n")
    assert {row["status"] for row in (await rows(database)).values()} == {"FAILED"}


async def test_a_file_of_turns_is_submitted_in_order_and_may_be_given_again(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    lines = "\n".join(json.dumps({"session_id": f"s{n % 3}", "input": f"line {n}"}) for n in range(250))

    arguments = ("submit", "--direct", "--tenant", "t", "--file", "-", "--idempotency-key", "job-7", "--json")
    first = await turnstile(*arguments, text=lines)
    again = await turnstile(*arguments, text=lines)

    document = json.loads(first.out)
    assert (document["submitted"], document["replayed"], document["unsent"]) == (250, 0, 0)
    assert json.loads(again.out)["replayed"] == 250
    assert json.loads(again.out)["turn_ids"] == document["turn_ids"]
    seqs = {str(turn_id): row["seq"] for turn_id, row in (await rows(database)).items()}
    assert [seqs[turn_id] for turn_id in document["turn_ids"]] == [n // 3 + 1 for n in range(250)]
    assert await queues.count(settings.queue) == 250


async def test_a_direct_submit_is_the_same_turn_when_it_comes_again(turnstile: Turnstile, database: Database) -> None:
    arguments = ("submit", "alice", "hello", "--direct", "--idempotency-key", "k")

    first, again = await turnstile(*arguments), await turnstile(*arguments)
    other = await turnstile("submit", "alice", "bye", "--direct", "--idempotency-key", "k")

    assert first.out == again.out
    assert list(map(str, await rows(database))) == [first.out.strip()]
    assert other.code == 1


async def test_a_wait_that_is_too_short_ends_with_1_and_says_how_the_turn_stands(turnstile: Turnstile) -> None:
    ran = await turnstile("submit", "alice", "hello", "--direct", "--wait=0.2")

    assert (ran.code, ran.out) == (1, "")
    assert "still PENDING" in ran.err


async def test_migrate_goes_down_and_up_again_and_prints_its_sql(turnstile: Turnstile) -> None:
    down = await turnstile("migrate", "--down", "--revision", "base", "--yes")
    unusable = await turnstile("list")
    sql = await turnstile("migrate", "--sql")
    up = await turnstile("migrate")
    usable = await turnstile("list", "--json")

    assert (down.code, up.code, usable.code) == (0, 0, 0)
    assert (unusable.code, "turnstile migrate" in unusable.err) == (4, True)
    assert "CREATE TABLE turns" in sql.out
    assert json.loads(usable.out) == {"turns": []}


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


async def test_the_relay_alone_sends_what_is_due_and_stops_on_sigterm(
    environment: dict[str, str], database: Database, queues: MessageQueues, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue)], net_seconds=60)
    await database.fetch("UPDATE turns SET send_at = now()", {})
    process = await asyncio.create_subprocess_exec(
        sys.executable, *("-m", "turnstile.ops.cli", "relay", "--tick-seconds", "0.1"), env=environment
    )

    await until(lambda: queues.count(settings.queue))
    process.send_signal(signal.SIGTERM)

    assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_a_reader_that_has_enough_is_no_error(
    environment: dict[str, str], database: Database, settings: Settings
) -> None:
    await submit(database, [make_submission(settings.queue, f"s{n}") for n in range(300)], net_seconds=60)
    command = f"set -o pipefail; {sys.executable} -m turnstile.ops.cli list --limit 300 --json | head -n 1"
    ran = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{\n", "")


async def test_a_worker_whose_health_port_is_taken_ends_with_one_line(environment: dict[str, str]) -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        worker = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "turnstile.ops.cli", "worker", "--handler", "turnstile.examples.eliza:respond"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**environment, "TURNSTILE_HEALTH_PORT": str(port)},
        )

    assert worker.returncode == 2
    assert worker.stderr.splitlines()[-1] == f"turnstile: port {port} is taken"
    assert "Traceback" not in worker.stderr
