"""`turnstile archive`: what it refuses, prints and leaves behind when it is broken off; archived turns in other commands."""

import json

import psycopg
import pytest
from inline_snapshot import snapshot

from tests.archive.archiving import age, archive, end_turn, everywhere, in_archive, in_table
from tests.ops.conftest import Turnstile
from tests.ops.invoke import invoke_plain
from tests.ops.wording import wording
from tests.support.factories import make_submission
from turnstile.archive import bounded_statement, move
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus


def test_an_age_at_which_clients_may_still_repeat_their_requests_is_refused() -> None:
    ran = invoke_plain("archive", "--older-than", "29d", "--yes", TURNSTILE_IDEMPOTENCY_DAYS="30")

    assert (ran.code, "at least 30d" in ran.err) == (2, True)


@pytest.mark.parametrize("given", ["--dry-run", "--yes"])
async def test_it_moves_old_sessions_and_prints_the_counts(
    turnstile: Turnstile, database: Database, settings: Settings, given: str
) -> None:
    old = [await end_turn(database, settings, session) for session in ("a", "a", "b")]
    await age(database)
    kept = await end_turn(database, settings, "c")

    said = await turnstile("archive", "--older-than=90d", "--dry-run")
    ran = await turnstile("archive", "--older-than=90d", given, "--json")

    assert said.out.startswith("3 turns of 2 sessions would be moved, at rest since ")
    shown, dry_run = json.loads(ran.out), given == "--dry-run"
    assert (ran.code, shown.pop("cutoff") is not None) == (0, True)
    assert shown == {"dry_run": dry_run, "failed": False, "sessions": 2, "turns": 3, "skipped": 0}
    assert await in_table(database) == sorted([*old, kept] if dry_run else [kept])
    assert await in_archive(database) == ([] if dry_run else sorted(old))


async def test_a_session_with_a_locked_turn_is_left_and_the_command_fails(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_statement, "BOUNDS", bounded_statement.BOUNDS.replace("1s", "50ms"))
    await end_turn(database, settings)
    await age(database)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM turns FOR UPDATE")
        ran = await turnstile("archive", "--older-than=90d", "--yes")

    assert ran.code == 1
    assert "1 session took too long or met a lock" in ran.err


async def test_status_shows_an_archived_turn_as_before(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    before = await turnstile("status", str(turn_id), "--show-text", "--json")
    await turnstile("archive", "--older-than=90d", "--yes")

    after = await turnstile("status", str(turn_id), "--show-text", "--json")

    assert await in_table(database) == []
    assert (after.code, json.loads(after.out)) == (0, json.loads(before.out))


async def test_of_a_turn_id_of_two_tenants_status_shows_the_turn_of_the_table_and_names_the_other_tenant(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings, content="mine")
    await age(database)
    await archive(database)
    theirs = make_submission(settings.queue, "o", "theirs", tenant_id="u", turn_id=turn_id)
    await submit(database, [theirs], resend_seconds=60)

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


async def test_after_a_run_that_was_broken_off_the_next_run_does_the_rest(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    ids = [await end_turn(database, settings, f"s{number}") for number in range(4)]
    await age(database)
    steps = move.archive_sessions(database, await move.read_cutoff(database, 3600.0), batch=1, pause_seconds=0)
    await anext(steps)
    await steps.aclose()

    assert await everywhere(database) == sorted(ids)
    assert 0 < len(await in_archive(database)) < len(ids)

    ran = await turnstile("archive", "--older-than=90d", "--yes")
    assert ran.code == 0
    assert (await in_table(database), await in_archive(database)) == ([], sorted(ids))


async def test_an_archived_turn_can_not_run_again_and_the_commands_say_so(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn_id = str(await end_turn(database, settings, status=TurnStatus.FAILED))
    await age(database)
    await archive(database, failed=True)

    ran = [
        await turnstile(*words)
        for words in (
            ("retry", turn_id, "--yes"),
            ("skip", turn_id, "--yes"),
            ("redrive", "--turn", turn_id, "--yes"),
            ("dlq", "show", turn_id),
        )
    ]

    assert [one.code for one in ran] == [1, 1, 1, 0]
    assert [wording(one.err, TURN=turn_id) for one in ran] == snapshot(
        [
            "turnstile: TURN is FAILED and in the archive: it can't run again; see turnstile status TURN; nothing was changed\n",
            "turnstile: TURN is FAILED and in the archive: it can't run again; see turnstile status TURN; nothing was changed\n",
            "TURN is FAILED and in the archive: it can't run again; see turnstile status TURN: left as it is\n",
            "TURN is FAILED and in the archive: it can't run again; see turnstile status TURN\n",
        ]
    )
    assert [str(one) for one in await in_archive(database)] == [turn_id]
