"""`turnstile cancel` of many turns by filter."""

import asyncio
import json
import signal
import sys
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import rows
from tests.support.claims import claim_sessions
from tests.support.factories import make_submission
from tests.support.row_locks import rows_locked, until_a_call_waits
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.turns.open_turns import OpenFilter, list_open
from turnstile.statements.cancel import cancel_some
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.status import TurnStatus


async def submitted(database: Database, settings: Settings, *sessions: str, **fields: Any) -> list[UUID]:
    wanted = [make_submission(settings.queue, session, **fields) for session in sessions]
    await submit(database, wanted, resend_seconds=60)
    return [one.turn_id for one in wanted]


async def statuses(database: Database, turns: list[UUID]) -> list[str]:
    found = await rows(database)
    return [found[turn]["status"] for turn in turns]


async def test_many_are_counted_by_queue_and_status_and_nothing_is_done_without_an_answer(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turns = await submitted(database, settings, "a", "a", "b", tenant_id="t")
    await claim_sessions(database, settings, "a")

    asked = await turnstile("cancel", "--tenant", "t")
    dry = await turnstile("cancel", "--tenant", "t", "--dry-run")
    document = await turnstile("cancel", "--tenant", "t", "--dry-run", "--json")

    counted = f"3 open turns of 2 sessions of tenant t ({settings.queue}: 2 PENDING, {settings.queue}: 1 RUNNING)"
    assert (asked.code, f"{counted}. Cancel them?" in asked.err) == (2, True)
    assert dry.out == f"would cancel {counted}\n"
    assert json.loads(document.out)["open"] == {settings.queue: {"PENDING": 2, "RUNNING": 1}}
    assert await statuses(database, turns) == ["RUNNING", "PENDING", "PENDING"]


async def test_waiting_turns_are_cancelled_at_once_and_running_ones_asked_to_stop(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    running, waiting, other = await submitted(database, settings, "a", "a", "b")
    (elsewhere,) = await submitted(database, settings, "a", tenant_id="u")
    await claim_sessions(database, settings, "a")

    ran = await turnstile("cancel", "--tenant", "t", "--queue", settings.queue, "--yes")
    again = await turnstile("cancel", "--tenant", "t", "--status", "pending", "--yes", "--json")

    assert (ran.code, ran.out) == (0, "2 turns CANCELED, 1 RUNNING turn asked to stop\n")
    found = await rows(database)
    assert [found[turn]["status"] for turn in (running, waiting, other, elsewhere)] == [
        "RUNNING", "CANCELED", "CANCELED", "PENDING",
    ]  # fmt: skip
    assert found[running]["cancel_reason"] == "operator"
    assert (again.code, json.loads(again.out)["matched"]) == (0, 0)


async def test_a_trace_chooses_its_turns_also_those_that_a_redrive_gave_another(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    trace = "a" * 32
    turns = await submitted(database, settings, "a", "b", "c", "d")
    await database.fetch(
        "UPDATE turns SET trace_id = %(trace)s WHERE id = ANY (%(ids)s::uuid[])", {"trace": trace, "ids": turns[:2]}
    )
    await database.fetch(
        "INSERT INTO turn_traces (turn_id, tenant_id, turn_created_at, generation, trace_id, span_id)"
        " SELECT id, tenant_id, created_at, 0, %(trace)s, span_id FROM turns WHERE id = %(id)s",
        {"trace": trace, "id": turns[2]},
    )

    ran = await turnstile("cancel", "--trace", trace, "--yes")

    assert (ran.code, ran.out) == (0, "3 turns CANCELED\n")
    assert await statuses(database, turns) == ["CANCELED", "CANCELED", "CANCELED", "PENDING"]


@pytest.mark.parametrize(
    ("status", "canceled"), [("pending", ["RUNNING", "CANCELED"]), ("running", ["RUNNING", "PENDING"])]
)
async def test_a_status_chooses_among_open_turns(
    turnstile: Turnstile, database: Database, settings: Settings, status: str, canceled: list[str]
) -> None:
    turns = await submitted(database, settings, "a", "a")
    await claim_sessions(database, settings, "a")

    ran = await turnstile("cancel", "--status", status, "--yes", "--json")

    assert await statuses(database, turns) == canceled
    assert json.loads(ran.out)["stopping"] == (1 if status == "running" else 0)


async def test_turns_are_chosen_by_session_and_age(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turns = await submitted(database, settings, "a", "b", "b")
    aged = "UPDATE turns SET created_at = created_at - interval '2 hours' WHERE id = ANY (%(ids)s::uuid[])"
    await database.fetch(aged, {"ids": turns[:2]})

    await turnstile("cancel", "--session", "b", "--older-than", "1h", "--yes")

    assert await statuses(database, turns) == ["PENDING", "CANCELED", "PENDING"]


async def test_the_rest_of_a_session_goes_on_at_once(
    turnstile: Turnstile, database: Database, queues: MessageQueues, settings: Settings
) -> None:
    first, second = await submitted(database, settings, "a", "a")
    await database.fetch(
        "UPDATE turns SET created_at = created_at - interval '2 hours' WHERE id = %(id)s", {"id": first}
    )

    await turnstile("cancel", "--older-than", "1h", "--yes")

    (message,) = await queues.receive(settings.queue, 10)
    assert str(second) in message.body


async def test_a_turn_that_began_since_it_was_listed_as_waiting_is_not_stopped(
    database: Database, settings: Settings
) -> None:
    turns = await submitted(database, settings, "a", "a")
    listed = await list_open(database, OpenFilter())
    await claim_sessions(database, settings, "a")

    met = await cancel_some(
        database, "t", "a", frozenset((turn.id, TurnStatus.PENDING) for turn in listed), CancelReason.USER
    )

    assert (met.canceled, met.asked) == ((turns[1],), ())
    assert await statuses(database, turns) == ["RUNNING", "CANCELED"]


async def test_one_turn_is_cancelled_without_a_question_and_only_of_the_named_tenant(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    first, second = await submitted(database, settings, "a", "b")

    other = await turnstile("cancel", str(first), "--tenant", "u", "--yes")
    ran = await turnstile("cancel", str(second), "--tenant", "t", "--yes")

    assert (other.code, ran.code) == (3, 0)
    assert await statuses(database, [first, second]) == ["PENDING", "CANCELED"]


@pytest.mark.usefixtures("interruptible")
async def test_ctrl_c_says_how_many_were_cancelled(
    environment: dict[str, str], database: Database, settings: Settings
) -> None:
    await submitted(database, settings, *(f"s{number:02}" for number in range(6)))
    # The last session is locked: the command waits there.
    with rows_locked(settings, "session_id = 's05'", table="sessions"):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "turnstile.ops.main", "cancel", "--status", "open", "--yes"),
            env=environment,
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

        await until_a_call_waits(database)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 60)

    assert (process.returncode, err.decode().splitlines()) == (
        130, ["broken off: 5 turns CANCELED", "turnstile: interrupted"],
    )  # fmt: skip


async def test_the_command_notifies_the_workers_of_running_turns_at_once(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (running,) = await submitted(database, settings, "a")
    await claim_sessions(database, settings, "a")

    async with Redis.from_url(settings.redis_url, decode_responses=True) as client, client.pubsub() as listening:
        await listening.psubscribe(f"{settings.redis_prefix}*")
        await listening.get_message(timeout=30)
        await turnstile("cancel", "--session", "a", "--yes")
        heard = await listening.get_message(timeout=30)

    assert heard["data"] == str(running)


async def test_more_turns_than_one_run_takes_end_it_with_1(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.turns.cancel_many.MOST", 2)
    await submitted(database, settings, "a", "b")

    ran = await turnstile("cancel", "--status", "open", "--yes")

    assert (ran.code, "run it again for the others" in ran.err) == (1, True)
