"""The attempts of a turn, as `status` and `dlq show` print them."""

import json
from dataclasses import replace

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.statements.calls import FAILURE, RETRY, SNOOZE
from tests.support.claims import claimed, expire_leases, settle_one, submit_turns
from tests.support.database_clock import with_other_clock
from tests.support.tampered_turns import make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings


async def test_status_shows_why_each_attempt_ended_how_long_it_took_and_the_last_traceback(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (turn,) = await submit_turns(database, settings, "hello")
    due = "UPDATE turns SET execute_at = now() WHERE id = %(id)s"
    for settlement in (
        replace(RETRY, traceback="first place\n"),
        replace(SNOOZE, error="the model is busy"),
        replace(FAILURE, traceback="Traceback\n  second place\n"),
    ):
        await database.fetch(due, {"id": turn})
        await settle_one(database, settings, await claimed(database, settings), settlement)

    shown = await turnstile("status", str(turn))
    letter = await turnstile("dlq", "show", str(turn))
    document = json.loads((await turnstile("status", str(turn), "--json")).out)

    assert "Boom: boom" in shown.out
    assert "the model is busy" in shown.out
    assert shown.out.rstrip().endswith("of generation 1:\nTraceback\n  second place")
    assert "first place" not in shown.out
    assert "second place" in letter.out
    attempts = document["attempts"]
    assert [one["outcome"] for one in attempts] == ["retried", "snoozed", "failed"]
    assert [one["error"] for one in attempts] == ["boom", "the model is busy", "boom"]
    assert [one["traceback"] for one in attempts] == ["first place\n", None, "Traceback\n  second place\n"]
    assert all(one["waiting_seconds"] >= 0 and one["running_seconds"] >= 0 for one in attempts)
    assert document["turn"]["total_seconds"] >= document["turn"]["running_seconds"] >= 0


async def test_the_attempt_under_way_is_shown_with_its_worker(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (turn,) = await submit_turns(database, settings, "hello")
    await claimed(database, settings)

    shown = (await turnstile("status", str(turn))).out

    [line] = [line for line in shown.splitlines() if " runs " in line]
    assert "worker-a" in line


async def test_an_attempt_whose_worker_was_lost_says_so_and_not_how_long_it_ran(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (turn,) = await submit_turns(database, settings, "hello")
    await claimed(database, settings)
    await expire_leases(database)
    again = await claimed(database, settings)
    await settle_one(database, settings, again, FAILURE)
    await tamper(settings, "UPDATE turn_attempts SET started_at = finished_at - interval '72 s'")

    shown = (await turnstile("status", str(turn))).out
    lost, failed = json.loads((await turnstile("status", str(turn), "--json")).out)["attempts"]

    [line] = [line for line in shown.splitlines() if " lost " in line]
    assert ("1m" in line, line.rstrip().endswith("its worker was lost")) == (False, True)
    assert (lost["outcome"], lost["running_seconds"], lost["finished_at"] is None) == ("lost", None, False)
    assert failed["running_seconds"] == 72


async def test_a_traceback_can_not_move_the_cursor(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (turn,) = await make_failed(database, settings, ["a"])
    await database.fetch("UPDATE turn_attempts SET traceback = %(text)s", {"text": "\x1b[2Jgone"})

    assert "·[2Jgone" in (await turnstile("status", str(turn))).out


async def test_how_long_a_turn_has_run_is_by_the_clock_that_wrote_its_start(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    url = with_other_clock(settings, -300)
    async with Database(DatabasePlace(url), "test", size=1) as behind:
        turn = await make_running(behind, settings)

    ran = await turnstile("status", str(turn), "--json", DATABASE_URL=url)

    assert json.loads(ran.out)["turn"]["running_seconds"] < 200
