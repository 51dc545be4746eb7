"""`turnstile top --json`: one snapshot of the system."""

import json

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.support.claims import submit_turns
from tests.support.factories import make_worker_record
from tests.support.tampered_turns import make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.worker_registry import announce


async def test_a_snapshot_has_figures_queues_workers_turns_and_failures(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    [failed] = await make_failed(database, settings, ["bad"])
    await make_failed(database, settings, ["halted"], error_class="Halting", halt=True)
    await make_failed(database, settings, ["dropped"], error_class="Dropped")
    await tamper(settings, "UPDATE turns SET dropped_at = now() WHERE error_class = 'Dropped'")
    await announce(database, make_worker_record(settings.queue, "wanda"))
    running = await make_running(database, settings, "busy")
    await submit_turns(database, settings, "one", "two")

    shown = json.loads((await turnstile("top", "--json")).out)

    assert shown["stats"]["since_seconds"] == 300
    assert [queue["backlog"]["due"] for queue in shown["queues"]] == [2]
    assert [turn["turn_id"] for turn in shown["running"]] == [str(running)]
    assert [(one["worker_id"], one["state"]) for one in shown["workers"]] == [("wanda", "well")]
    groups = {group["error_class"]: group["sample_turn_id"] for group in shown["failed"]}
    assert (set(groups), groups["ValueError"]) == ({"Halting", "ValueError"}, str(failed))


async def test_without_textual_the_command_says_what_to_do(
    turnstile: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("turnstile.ops.top.top_command.has_terminal", lambda: True)

    ran = await turnstile("top")

    assert ran.code == 2
    assert "use --json" in ran.err


async def test_without_a_terminal_the_screen_is_refused(turnstile: Turnstile) -> None:
    ran = await turnstile("top")

    assert (ran.code, ran.out) == (2, "")
    assert "needs a terminal" in ran.err
