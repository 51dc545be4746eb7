"""`turnstile stats`: what it prints, and how it ends."""

import json

import pytest

from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_failed
from tests.support.claims import claim_sessions, settle_one, submit_turns
from tests.support.tampered_turns import tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


async def test_stats_show_what_has_ended_lately_and_what_waits(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "hello", session_id="a")
    await settle_one(database, settings, *await claim_sessions(database, settings, "a"))
    await make_failed(database, settings, ["b"])
    await make_failed(database, settings, ["c"], tenant_id="u", error_class="Reject")
    await submit_turns(database, settings, "again", session_id="a")

    ran = await turnstile("stats", "--json")
    of_one = await turnstile("stats", "--since", "15m", "--tenant", "u", "--queue", settings.queue, "--json")
    shown = await turnstile("stats")

    document = json.loads(ran.out)
    assert (document["ended"], document["since_seconds"]) == (3, 3600.0)
    assert document["by_status"] == {"FAILED": 2, "SUCCEEDED": 1}
    assert document["by_error_class"] == {"Reject": 1, "ValueError": 1}
    assert set(document["waiting_seconds"]) == set(document["running_seconds"]) == {"p50", "p95", "p99"}
    assert document["attempts_per_turn"] == 1.0
    [backlog] = document["backlog"]
    assert (backlog["queue"], backlog["due"], backlog["ready"], backlog["running"]) == (settings.queue, 1, 1, 0)
    assert json.loads(of_one.out)["by_error_class"] == {"Reject": 1}
    assert "3 in 1h" in shown.out
    assert "FAILED 2, SUCCEEDED 1" in shown.out
    assert "p50 " in shown.out


async def test_older_ends_are_not_counted(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"])
    await tamper(settings, "UPDATE turns SET finished_at = now() - interval '30 min'")

    counts = [
        json.loads((await turnstile("stats", "--since", since, "--json")).out)["ended"] for since in ("15m", "1h")
    ]

    assert counts == [0, 1]


async def test_what_ended_before_the_clock_was_set_back_is_not_counted_as_of_lately(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    await tamper(settings, "UPDATE turns SET finished_at = now() + interval '5 min'")

    assert json.loads((await turnstile("stats", "--since", "1m", "--json")).out)["ended"] == 0


async def test_a_time_with_too_many_turns_ends_with_one_line_that_says_what_to_do(
    turnstile: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.stats.ENDED", "SELECT pg_sleep(60)")
    monkeypatch.setitem(Database.__init__.__kwdefaults__, "statement_timeout_seconds", 0.2)

    ran = await turnstile("stats", "--since", "30d")

    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "--since" in ran.err


async def test_an_undeclared_queue_is_refused(turnstile: Turnstile) -> None:
    assert (await turnstile("stats", "--queue", "nowhere")).code == 3
