"""The simulation itself: that a seed replays exactly, that lives with faults end clean, and that it can convict."""

import gc
import os
import subprocess
import sys
from typing import Any

import pytest

import turnstile.statements.settle
from tests.conftest import ROOT
from tests.proof.checker import check
from tests.proof.simulation.judging import judge, run_seed
from tests.support.fakes import store, store_claim
from tests.support.fakes.store_rows import SessionRow
from tests.support.fakes.store_tables import Tables

SEEDS = range(1, 4)


def digest_in_a_fresh_process(seed: int, hash_seed: int) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.proof.simulation", "--seed", str(seed), "--digest"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout


@pytest.mark.parametrize("seed", [3])
def test_a_seed_gives_the_same_life_in_every_process(seed: int) -> None:
    assert digest_in_a_fresh_process(seed, 1) == digest_in_a_fresh_process(seed, 2)


def test_two_seeds_give_two_lives() -> None:
    first, second = (run_seed(seed)[1] for seed in (1, 2))

    assert [change.turn_id for change in first.audit] != [change.turn_id for change in second.audit]


def test_a_life_is_collected_when_it_is_over() -> None:
    # What a worker does once, and spares the collector, a simulation would do in each of thousands of lives.
    frozen = gc.get_freeze_count()

    run_seed(1)

    assert gc.get_freeze_count() == frozen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_ends_clean(seed: int) -> None:
    judged = judge(seed)

    assert judged.report == ""
    assert judged.turns > 100


def test_a_store_that_takes_the_last_turn_of_a_session_for_its_head_is_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionRow, "head", property(lambda session: session.open[-1] if session.open else None))

    convicted = {violation.invariant for violation in check(run_seed(1)[1])}

    assert "I5" in convicted


def test_a_store_that_forgets_what_it_was_told_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store.STATEMENTS, turnstile.statements.settle.SETTLE, settle_without_a_reply)

    convicted = {violation.invariant for violation in check(run_seed(1)[1])}

    assert "I3" in convicted


def settle_without_a_reply(tables: Tables, parameters: Any) -> Any:
    """Settles, and loses what was said."""
    rows = store_claim.settle(tables, parameters)
    for row in rows:
        tables.messages[row["id"]] = [said for said in tables.messages[row["id"]] if said.role == "user"]
    return rows
