"""`turnstile redrive`: which turns it takes, and what it says when its turns fail again."""

import json
from uuid import uuid4

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed, rows
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def matched(turnstile: Turnstile, *words: str) -> list[str]:
    ran = await turnstile("redrive", "--dry-run", "--json", *words)
    assert ran.code == 0, ran.err
    found: list[str] = json.loads(ran.out)["turn_ids"]
    return found


async def test_turns_are_chosen_by_session_age_and_trace(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    old, young = map(str, await make_failed(database, settings, ["a", "b"]))
    aged = "UPDATE turns SET finished_at = finished_at - interval '2 hours' WHERE id = %(id)s"
    await database.fetch(aged, {"id": old})
    traces = {str(turn_id): row["trace_id"] for turn_id, row in (await rows(database)).items()}

    assert await matched(turnstile, "--session", "b") == [young]
    assert await matched(turnstile, "--older-than", "90m") == [old]
    assert await matched(turnstile, "--younger-than", "1h") == [young]
    assert await matched(turnstile, "--older-than", "1h", "--younger-than", "1d") == [old]
    assert await matched(turnstile, "--trace", traces[old]) == [old]
    assert await matched(turnstile, "--trace", "0" * 32) == []


async def test_a_turn_is_found_by_the_trace_of_an_earlier_run(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])
    earlier = (await rows(database))[failed]["trace_id"]
    await turnstile("redrive", "--yes")
    fail = (
        "UPDATE turns SET status = %(status)s, fence = fence + 1, lease_until = now(), send_at = NULL WHERE id = %(id)s"
    )
    await database.fetch(fail, {"status": "RUNNING", "id": failed})
    await database.fetch(
        "UPDATE turns SET status = 'FAILED', lease_until = NULL, finished_at = now(), dead_lettered_at = now() WHERE id = %(id)s",
        {"id": failed},
    )

    assert await matched(turnstile, "--trace", earlier) == [str(failed)]


async def test_ids_come_from_standard_input_one_a_line(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    first, second, third = await make_failed(database, settings, ["a", "b", "c"])

    ran = await turnstile("redrive", "--turn", "-", "--yes", "--json", text=f"{third}\n\n{first}\n{third}\n")

    assert (ran.code, sorted(json.loads(ran.out)["turn_ids"])) == (0, sorted([str(first), str(third)]))
    assert (await rows(database))[second]["status"] == "FAILED"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{id}\nnonsense\n\n17\n", "standard input: not a turn id in line 2, 4; nothing was done"),
        ("\n", "standard input has no turn id; nothing was done"),
    ],
)
async def test_bad_lines_are_named_before_anything_is_done(
    turnstile: Turnstile, database: Database, settings: Settings, text: str, line: str
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])

    ran = await turnstile("redrive", "--turn", "-", "--yes", text=text.format(id=failed))

    assert (ran.code, ran.out, ran.err) == (2, "", f"turnstile: {line}\n")
    assert (await rows(database))[failed]["status"] == "FAILED"


async def test_a_canary_that_does_not_succeed_ends_the_command_with_1_and_the_log_says_why(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.dead_letters.redriven_turns.CANARY_WAIT_SECONDS", 0.05)
    await make_failed(database, settings, ["a", "b", "c"])

    ran = await turnstile("redrive", "--canary", "1", "--yes", "--json")
    log = json.loads((await turnstile("redrives", "--json")).out)["redrives"]
    table = (await turnstile("redrives")).out

    reason = "the canary did not end in time: 1 not ended yet; at least 1 of 1 must succeed"
    assert (ran.code, json.loads(ran.out)["stopped"], json.loads(ran.out)["not_tried"]) == (1, reason, 2)
    assert f"turnstile: stopped, with 2 turns left FAILED: {reason}" in ran.err
    assert "canary: 1 turn put back; waiting up to 10m for the canary to end" in ran.err
    assert [(one["outcome"], one["matched"], one["turns"], one["left_alone"]) for one in log] == [("stopped", 3, 1, 2)]
    assert reason in table


async def test_the_log_shows_redrives_retries_skips_and_drops(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    first, _ = await make_failed(database, settings, ["a", "b"])
    retried, skipped = await make_failed(database, settings, ["c", "d"], halt=True)

    await turnstile("redrive", "--turn", str(first), "--yes")
    await turnstile("retry", str(retried), "--yes")
    await turnstile("skip", str(skipped), "--yes")
    await turnstile("dlq", "drop", "--session", "b", "--yes")
    log = json.loads((await turnstile("redrives", "--json", "--limit", "3")).out)["redrives"]
    table = (await turnstile("redrives")).out

    assert [(one["action"], one["matched"], one["turns"], one["outcome"]) for one in log] == [
        ("drop", 1, 1, "finished"),
        ("skip", 1, 1, "finished"),
        ("retry", 1, 1, "finished"),
    ]
    assert log[0]["filter"] == {"drop": {"session_id": "b"}}
    assert f"turn ids {first}" in table
    assert f"turn {retried}" in table


async def test_a_turn_that_is_named_and_unknown_changes_nothing(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    (failed,) = await make_failed(database, settings, ["a"])

    ran = await turnstile("redrive", "--turn", "-", "--yes", text=f"{failed}\n{uuid4()}\n")

    assert ran.code == 3
    assert (await rows(database))[failed]["status"] == "FAILED"


async def test_turns_of_a_queue_that_is_not_declared_end_the_command_with_1(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    await make_failed(database, settings, ["b"], queue="elsewhere")

    ran = await turnstile("redrive", "--yes", "--json")

    assert (ran.code, json.loads(ran.out)["revived"], json.loads(ran.out)["undeclared"]) == (1, 1, {"elsewhere": 1})
    assert "1 turn of queue 'elsewhere' left alone: these settings do not declare it" in ran.err


# --- what the question and the answer say of the filter


async def test_a_redrive_of_everything_says_so_before_it_asks(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])

    everything, filtered, limited = [
        await turnstile("redrive", *words) for words in ((), ("--tenant", "t", "--older-than", "1h"), ("--limit", "1"))
    ]

    assert "2 FAILED turns (no filter; these are all), failed from 20" in everything.err
    assert "no FAILED turn matches (tenant t, older than 1h)" in filtered.err
    assert "1 FAILED turn (no filter; the oldest 1 at most), failed from 20" in limited.err


@pytest.mark.parametrize("command", [("redrive",), ("dlq", "drop")])
async def test_without_a_match_it_says_so_with_the_filter_and_ends_with_0(
    turnstile: Turnstile, settings: Settings, command: tuple[str, ...]
) -> None:
    filtered = await turnstile(*command, "--queue", settings.queue, "--error", "Boom", "--yes")
    unfiltered = await turnstile(*command)

    assert (filtered.code, unfiltered.code) == (0, 0)
    assert f"no FAILED turn matches (queue {settings.queue}, error class Boom)" in filtered.err
    assert "there is no dead letter" in unfiltered.err
