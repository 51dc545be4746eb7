"""`turnstile archive` as people run it: what it refuses, asks, says and leaves behind when it is killed."""

import asyncio
import json
import sys

import psycopg
import pytest

from tests.archive.archiving import age, archive, end_turn, everywhere, in_archive, in_table
from tests.ops.commands.conftest import Turnstile
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.archive import move
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus


@pytest.mark.parametrize(
    "given", ["90", "d", "-90d", "0d", "1.5d", "90 days", "999999w"], ids=lambda given: given.replace(" ", "_")
)
async def test_what_is_no_age_is_refused(turnstile: Turnstile, given: str) -> None:
    ran = await turnstile("archive", f"--older-than={given}", "--yes")

    assert ran.code == 2
    assert "90d" in ran.err


@pytest.mark.parametrize(("days", "given"), [("1", "23h"), ("30", "29d")])
async def test_an_age_that_clients_may_still_repeat_their_requests_at_is_refused(
    turnstile: Turnstile, days: str, given: str
) -> None:
    ran = await turnstile("archive", "--older-than", given, "--yes", TURNSTILE_IDEMPOTENCY_DAYS=days)

    assert ran.code == 2
    assert f"at least {days}d" in ran.err


async def test_it_asks_before_it_moves_anything(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)

    ran = await turnstile("archive", "--older-than=90d")

    assert ran.code == 2
    assert "There is no way back" in ran.err
    assert await in_table(database) == [turn_id]


@pytest.mark.parametrize("given", ["--dry-run", "--yes"])
async def test_it_moves_what_is_old_and_says_so(
    turnstile: Turnstile, database: Database, settings: Settings, given: str
) -> None:
    old = [await end_turn(database, settings, session) for session in ("a", "a", "b")]
    await age(database)
    kept = await end_turn(database, settings, "c")

    ran = await turnstile("archive", "--older-than=90d", given, "--json")

    told, dry_run = json.loads(ran.out), given == "--dry-run"
    assert (ran.code, told.pop("cutoff") is not None) == (0, True)
    assert told == {"dry_run": dry_run, "failed": False, "sessions": 2, "turns": 3, "skipped": 0}
    assert await in_table(database) == sorted([*old, kept] if dry_run else [kept])
    assert await in_archive(database) == ([] if dry_run else sorted(old))


async def test_where_a_turn_is_locked_it_says_so_and_fails(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move, "BOUNDS", move.BOUNDS.replace("1s", "50ms"))
    await end_turn(database, settings)
    await age(database)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM turns FOR UPDATE")
        ran = await turnstile("archive", "--older-than=90d", "--yes")

    assert ran.code == 1
    assert "1 sessions took too long or met a lock" in ran.err


async def test_an_archived_turn_is_shown_with_its_attempts_and_what_was_said(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    before = await turnstile("status", str(turn_id), "--show-text", "--json")
    await turnstile("archive", "--older-than=90d", "--yes")

    after = await turnstile("status", str(turn_id), "--show-text", "--json")

    assert await in_table(database) == []
    assert (after.code, json.loads(after.out)) == (0, json.loads(before.out))


async def test_of_a_turn_id_that_two_tenants_have_chosen_status_shows_the_tables_and_says_whose_the_other_is(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings, content="mine")
    await age(database)
    await archive(database)
    theirs = make_submission(settings.queue, "o", "theirs", tenant_id="u", turn_id=turn_id)
    await submit(database, [theirs], net_seconds=60)

    first = await turnstile("status", str(turn_id), "--show-text", "--json")
    other = await turnstile("status", str(turn_id), "--show-text", "--json", "--tenant", "t")

    shown, hidden = json.loads(first.out), json.loads(other.out)
    assert (shown["turn"]["tenant_id"], [said["content"] for said in shown["messages"]], shown["attempts"]) == (
        "u",
        ["theirs"],
        [],
    )
    assert "tenant t has a turn of this id, too" in first.err
    assert (hidden["turn"]["tenant_id"], [said["content"] for said in hidden["messages"]]) == ("t", ["mine", "re mine"])
    assert len(hidden["attempts"]) == 1


async def test_killed_in_mid_run_nothing_is_lost_or_doubled_and_the_next_run_does_the_rest(
    turnstile: Turnstile, database: Database, settings: Settings, environment: dict[str, str]
) -> None:
    ids = [await end_turn(database, settings, f"s{number}") for number in range(40)]
    await age(database)
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "turnstile.ops.cli",
            "archive",
            "--older-than=90d",
            "--yes",
            "--batch=1",
            "--pause=0.01",
        ),
        env=environment,
    )
    await until(lambda: in_archive(database))
    process.kill()
    await process.wait()

    assert await everywhere(database) == sorted(ids)
    assert 0 < len(await in_archive(database)) < 40

    ran = await turnstile("archive", "--older-than=90d", "--yes")
    assert ran.code == 0
    assert (await in_table(database), await in_archive(database)) == ([], sorted(ids))


async def test_the_dead_letters_say_of_an_archived_turn_where_it_can_be_seen(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await turnstile("archive", "--older-than=90d", "--failed", "--yes")

    ran = await turnstile("dlq", "show", str(turn_id))

    assert (ran.code, ran.out) == (3, "")
    assert f"{turn_id} is FAILED and in the archive" in ran.err
    assert f"turnstile status {turn_id}" in ran.err
    assert "turnstile redrive" not in ran.err


@pytest.mark.parametrize(("command", "code"), [("retry", 1), ("skip", 1), ("redrive", 0)])
async def test_of_an_archived_turn_it_is_said_that_it_can_not_run_again(
    turnstile: Turnstile, database: Database, settings: Settings, command: str, code: int
) -> None:
    turn_id = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await archive(database, failed=True)

    ran = await turnstile(*((command, str(turn_id)) if code else (command, "--turn", str(turn_id))), "--yes")

    assert ran.code == code
    assert f"{turn_id} is FAILED and in the archive: it can't run again; see turnstile status {turn_id}" in ran.err
    assert "there is no turn" not in ran.err
    assert await in_archive(database) == [turn_id]
