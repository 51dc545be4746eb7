"""`turnstile stats`: what it prints, and how it ends."""

import json
import re

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.support.claims import claim_sessions, settle_one, submit_turns
from tests.support.tampered_turns import make_pending, make_running, tamper
from tests.support.waiting_turns import RETRIED, SNOOZED, make_settled
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


async def test_what_has_not_ended_is_one_line(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    before = (await turnstile("stats")).out
    await make_settled(database, settings, "snoozed", SNOOZED)
    await make_settled(database, settings, "retrying", RETRIED)
    await make_running(database, settings, "running")
    await tamper(settings, "UPDATE turns SET started_at = now() - interval '64 s' WHERE status = 'RUNNING'")

    ran = await turnstile("stats", "--json")
    shown = await turnstile("stats")

    assert "not ended" not in before
    assert re.search(r"^not ended  1 snoozed, 1 retrying, 1 running \(longest 1m\d\ds\)$", shown.out, re.MULTILINE)
    [found] = json.loads(ran.out)["not_ended"]
    assert (found["snoozed"], found["retrying"], found["running"], found["still_since"]) == (1, 1, 1, None)


async def test_a_flood_shows_its_tenant_also_before_a_turn_of_it_has_ended(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"], tenant_id="calm")
    await make_failed(database, settings, ["b"], tenant_id="calm", error_class="Reject")
    await make_pending(database, settings, "c", tenant_id="calm")
    for number in range(3):
        await make_pending(database, settings, f"s{number}", tenant_id="flood")
    await make_running(database, settings, "d")

    ran = await turnstile("stats", "--by", "tenant", "--json")
    shown = await turnstile("stats", "--by", "tenant")
    of_one = await turnstile("stats", "--by", "tenant", "--tenant", "flood", "--json")

    groups = json.loads(ran.out)["groups"]
    counts = [tuple(one[name] for name in ("name", "due", "running", "ended", "failed")) for one in groups]
    assert sorted(counts) == [("calm", 1, 0, 2, 2), ("flood", 3, 0, 0, 0), ("t", 0, 1, 0, 0)]
    assert [line.split()[:3] for line in shown.out.splitlines()[1:3]] in (
        [["calm", "1", "0"], ["flood", "3", "0"]],
        [["flood", "3", "0"], ["calm", "1", "0"]],
    )
    assert [one["name"] for one in json.loads(of_one.out)["groups"]] == ["flood"]


async def test_stats_says_that_it_does_not_show_all_groups_and_turns(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.stats.stats_command.SHOWN_GROUPS", 1)
    monkeypatch.setattr("turnstile.queries.backlog.MOST", 2)
    monkeypatch.setattr("turnstile.ops.stats.stats_command.MOST", 2)
    for session, tenant in (("a", "u"), ("b", "v")):
        await make_pending(database, settings, session, tenant_id=tenant)

    ran = await turnstile("stats", "--by", "tenant")

    assert len(ran.out.splitlines()) == 2
    assert "the 1 largest, and 1 more (--json shows all)" in ran.err
    assert "due: of each queue the 2 oldest turns are counted; there may be more" in ran.err


async def test_failures_are_counted_by_release(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a", "b"], release="r8")
    await submit_turns(database, settings, "hello", session_id="c")
    await settle_one(database, settings, *await claim_sessions(database, settings, "c"))
    # It ended before any attempt: no release had it.
    await make_pending(database, settings, "d")
    await tamper(settings, "UPDATE turns SET status = 'CANCELED', finished_at = now() WHERE session_id = 'd'")

    ran = await turnstile("stats", "--by", "release", "--json")
    shown = await turnstile("stats", "--by", "release")

    document = json.loads(ran.out)
    assert (document["by"], document["since_seconds"]) == ("release", 3600.0)
    assert [(one["name"], one["ended"], one["failed"], one["top_error_class"]) for one in document["groups"]] == [
        ("", 2, 0, None),
        ("r8", 2, 2, "ValueError"),
    ]
    assert [line.split()[:4] for line in shown.out.splitlines() if "r8" in line] == [["r8", "2", "2", "ValueError"]]


async def test_older_ends_are_not_counted(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a"])
    await tamper(settings, "UPDATE turns SET finished_at = now() - interval '30 min'")

    counts = [
        json.loads((await turnstile("stats", "--since", since, "--json")).out)["ended"] for since in ("15m", "1h")
    ]

    assert counts == [0, 1]


async def test_a_turn_that_ended_before_the_clock_was_set_back_does_not_count_as_recent(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a"])
    await tamper(settings, "UPDATE turns SET finished_at = now() + interval '5 min'")

    assert json.loads((await turnstile("stats", "--since", "1m", "--json")).out)["ended"] == 0


async def test_a_time_with_too_many_turns_ends_with_one_line_that_says_what_to_do(
    turnstile: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.stats.read_stats.make_statement", lambda *_: "SELECT pg_sleep(60)")
    monkeypatch.setitem(Database.__init__.__kwdefaults__, "statement_timeout_seconds", 0.2)

    ran = await turnstile("stats", "--since", "30d")

    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "--since" in ran.err


async def test_an_undeclared_queue_is_refused(turnstile: Turnstile) -> None:
    assert (await turnstile("stats", "--queue", "nowhere")).code == 3
