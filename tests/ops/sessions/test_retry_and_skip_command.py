"""`turnstile retry`, `turnstile skip`, and what other commands show of a halted session."""

import asyncio
import json
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from inline_snapshot import snapshot

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed, rows, send_dead_letters
from tests.ops.invoke import NOBODY
from tests.ops.wording import wording
from tests.statements.calls import FAILURE, SUCCESS
from tests.support.claims import claim_sessions, settle_one
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import submit
from turnstile.turn.settlement import Settlement


async def make_halted(database: Database, settings: Settings, session_id: str = "s", *, waiting: int = 1) -> UUID:
    """A session halted by its first turn, with others waiting; the id of the turn that halts it."""
    (failed,) = await make_failed(database, settings, [session_id], halt=True)
    more = [make_submission(settings.queue, session_id) for _ in range(waiting)]
    await submit(database, more, resend_seconds=60)
    return failed


async def halted_sessions(database: Database) -> list[UUID]:
    found = await database.fetch("SELECT halted_by FROM sessions WHERE halted_by IS NOT NULL", {})
    return [row["halted_by"] for row in found]


async def test_a_retry_puts_the_turn_back_wakes_it_and_is_recorded(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    failed = await make_halted(database, settings)

    ran = await turnstile("retry", str(failed), "--yes", "--json")

    document = json.loads(ran.out)
    assert (ran.code, document["action"], document["dry_run"], document["waiting"]) == (0, "retry", False, 1)
    assert document["woken"] == str(failed)
    assert (await rows(database))[failed]["status"] == "PENDING"
    [record] = await database.fetch("SELECT * FROM redrives", {})
    assert (record["filter"], record["turn_ids"]) == ({"retry": str(failed)}, [failed])
    assert "@" in record["requested_by"]
    [message] = await queues.receive(settings.queue, 10)
    assert str(failed) in message.body


async def test_a_skip_passes_over_the_turn_wakes_the_next_and_is_recorded(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    failed = await make_halted(database, settings)

    ran = await turnstile("skip", str(failed), "--yes", "--json")
    await send_dead_letters(database, queues, settings)

    [following] = (await rows(database)).keys() - {failed}
    assert (ran.code, json.loads(ran.out)["woken"]) == (0, str(following))
    assert await halted_sessions(database) == []
    [record] = await database.fetch("SELECT * FROM redrives", {})
    assert (record["filter"], record["turn_ids"]) == ({"skip": str(failed)}, [])
    [entry] = json.loads((await turnstile("redrives", "--json")).out)["redrives"]
    assert (entry["action"], entry["matched"], entry["turns"], entry["left_alone"]) == ("skip", 1, 1, 0)
    assert await queues.count(settings.queue, dead=True) == 1


async def test_a_retry_waits_for_its_turn_if_asked_to_and_ends_with_1_unless_it_has_succeeded(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    halting, answered, again = await make_failed(database, settings, ["a", "b", "c"], halt=True)

    async def settle_soon(session_id: str, settlement: Settlement) -> None:
        async def claimable() -> bool:
            found = await database.fetch(
                "SELECT FROM turns WHERE session_id = %(id)s AND status = 'PENDING'", {"id": session_id}
            )
            return bool(found)

        await until(claimable)
        [turn] = await claim_sessions(database, settings, session_id)
        await settle_one(database, settings, turn, settlement)

    timed_out = await turnstile("retry", str(halting), "--yes", "--wait", "0")
    ends = [
        (
            await asyncio.gather(
                turnstile("retry", str(turn), "--yes", "--wait", "60"), settle_soon(session, settlement)
            )
        )[0]
        for turn, session, settlement in ((answered, "b", SUCCESS), (again, "c", FAILURE))
    ]

    assert (timed_out.code, timed_out.err) == (1, f"turn {halting} is still PENDING: turnstile why {halting}\n")
    assert [(one.code, one.err.strip()) for one in ends] == [
        (0, f"turn {answered} is SUCCEEDED"),
        (1, f"turn {again} is FAILED: {FAILURE.error_class}: {FAILURE.error}"),
    ]


async def test_a_retry_stands_if_its_wait_breaks_off(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise DatabaseUnavailableError("gone")

    [failed] = await make_failed(database, settings, ["a"], halt=True)
    monkeypatch.setattr("turnstile.ops.sessions.retry_and_skip_command.read_shown", broken)

    ran = await turnstile("retry", str(failed), "--yes", "--wait", "60")

    said = f"turn {failed} is retried, and this command has stopped waiting for it: see turnstile status {failed}"
    assert (ran.code, ran.err.splitlines()[0]) == (4, said)


async def test_a_dry_run_changes_nothing(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    failed = await make_halted(database, settings, waiting=2)
    before = await rows(database)

    ran = [await turnstile(command, str(failed), "--dry-run", "--json") for command in ("retry", "skip")]

    documents = [json.loads(one.out) for one in ran]
    assert [(one["dry_run"], one["waiting"], one["woken"]) for one in documents] == [(True, 2, None)] * 2
    assert await rows(database) == before
    assert await halted_sessions(database) == [failed]


async def test_a_turn_that_halts_nothing_is_refused_with_one_line(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["other"])
    waiting = make_submission(settings.queue, "waiting")
    await submit(database, [waiting], resend_seconds=60)

    refused = [await turnstile("skip", str(one), "--yes") for one in (failed, waiting.turn_id, NOBODY)]

    assert [ran.code for ran in refused] == [1, 1, 3]
    assert [wording(ran.err, FAILED=failed, WAITING=waiting.turn_id, UNKNOWN=NOBODY) for ran in refused] == snapshot(
        [
            "turnstile: FAILED is FAILED and does not halt a session; nothing was changed; try turnstile redrive --turn FAILED\n",
            "turnstile: WAITING is PENDING and does not halt a session; nothing was changed; try turnstile why WAITING\n",
            "turnstile: there is no turn UNKNOWN; nothing was changed\n",
        ]
    )


@pytest.mark.parametrize("command", ["retry", "skip"])
async def test_a_command_that_comes_second_says_so_and_ends_with_1(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    failed = await make_halted(database, settings)
    monkeypatch.setattr(f"turnstile.ops.sessions.halted_session.{command}", AsyncMock(return_value=None))

    ran = await turnstile(command, str(failed), "--yes")

    assert (ran.code, ran.out) == (1, "")
    assert "no longer halts its session: another command has resumed it; nothing was changed" in ran.err


async def test_a_skip_works_after_the_queue_is_gone_from_the_settings(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    failed = await make_halted(database, settings)
    elsewhere = {"TURNSTILE_QUEUES": '[{"name": "elsewhere"}]', "TURNSTILE_QUEUE": "elsewhere"}

    retried = await turnstile("retry", str(failed), "--yes", **elsewhere)
    skipped = await turnstile("skip", str(failed), "--yes", **elsewhere)

    assert (retried.code, skipped.code) == (3, 0)
    assert await halted_sessions(database) == []


async def test_a_redrive_leaves_a_turn_that_halts_alone_and_names_the_commands_for_it(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    failed = await make_halted(database, settings)

    named = await turnstile("redrive", "--turn", str(failed), "--yes")
    everything = await turnstile("redrive", "--yes", "--json")

    assert named.code == 1
    assert f"{failed} is FAILED and halts its session: see turnstile retry {failed}" in named.err
    assert everything.code == 0
    assert json.loads(everything.out)["matched"] == 0
    assert await halted_sessions(database) == [failed]


async def test_list_and_status_show_what_is_halted(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    failed = await make_halted(database, settings)
    await make_failed(database, settings, ["other"])

    listed = json.loads((await turnstile("list", "--halting", "--json")).out)["turns"]
    table = (await turnstile("list", "--session", "s")).out
    shown = json.loads((await turnstile("status", str(failed), "--json")).out)["turn"]

    assert [turn["id"] for turn in listed] == [str(failed)]
    assert "halts its session" in table
    assert " halted  " in table
    assert shown["halted_by"] == str(failed)
