"""The simulation itself: a seed replays exactly, runs with faults end clean, and a broken store is convicted."""

import gc
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

import turnstile.statements.settle
from tests.conftest import ROOT
from tests.proof.checker import check
from tests.proof.simulation import plan
from tests.proof.simulation.judging import digest, judge, run_seed
from tests.proof.simulation.nemesis import KINDS, nemesis
from tests.proof.simulation.plan import make_plan
from tests.proof.simulation.seeded_run import live
from tests.support.factories import PROVEN
from tests.support.fakes import store, store_claim, store_relay
from tests.support.fakes.store_rows import SessionRow
from tests.support.fakes.store_tables import Tables
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.turn.settlement import AttemptOutcome

SEED = 2


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


def test_a_seed_gives_the_same_run_in_every_process_and_another_seed_another() -> None:
    first = digest_in_a_fresh_process(SEED, 1)

    assert digest_in_a_fresh_process(SEED, 2) == first
    assert digest(run_seed(1)[1]) != first


def test_a_run_with_faults_is_acquitted_and_leaves_nothing_to_the_next() -> None:
    frozen = gc.get_freeze_count()

    judged = judge(1)

    assert judged.report == ""
    assert judged.turns > 100
    # A worker does it once for its process; here the objects of each run would stay. Frozen ones may go meanwhile.
    assert gc.get_freeze_count() <= frozen


def test_a_table_lock_that_outlasts_the_leases_takes_no_turn_from_a_living_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lost_under("store-table-locked", seeds=(6, 7), monkeypatch=monkeypatch) == 0

    # Without the evidence of renewals, the same runs lose turns.
    monkeypatch.setattr(RenewalEvidence, "judge", lambda self, now: PROVEN)
    assert lost_under("store-table-locked", seeds=(6, 7), monkeypatch=monkeypatch) > 0


def test_a_backfill_that_outlasts_the_leases_takes_no_turn_from_a_living_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Session locks in Redis would protect the turns, too.
    kinds = ("store-rows-backfilled", "redis-away")
    assert lost_under(*kinds, seeds=(2, 11), monkeypatch=monkeypatch) == 0

    # If nobody heeds what workers say of locked rows, the same runs lose turns.
    monkeypatch.setattr(store_relay, "_may_live", lambda *_: False)
    assert lost_under(*kinds, seeds=(2, 11), monkeypatch=monkeypatch) > 0


def lost_under(*kinds: str, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    """Attempts whose workers counted as lost. No turn of these runs kills a worker or blocks it."""
    monkeypatch.setattr(plan, "_WEIGHTS", {"sleep": 1, "long": 9})
    lost = 0
    for seed in seeds:
        made = replace(make_plan(seed, tuple(KINDS)), kinds=kinds, strikes=5 * len(kinds))
        lost += [attempt.outcome for attempt in live(made, nemesis).attempts].count(AttemptOutcome.LOST)
    return lost


def test_a_store_that_takes_the_last_turn_of_a_session_for_its_head_is_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionRow, "head", property(lambda session: session.open[-1] if session.open else None))

    convicted = {violation.invariant for violation in check(run_seed(1)[1])}

    assert "I5" in convicted


def test_a_store_that_loses_replies_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(store.STATEMENTS, turnstile.statements.settle.SETTLE, settle_without_a_reply)

    convicted = {violation.invariant for violation in check(run_seed(1)[1])}

    assert "I3" in convicted


def settle_without_a_reply(tables: Tables, parameters: Any) -> Any:
    """Settles, and loses the reply."""
    rows = store_claim.settle(tables, parameters)
    for row in rows:
        tables.messages[row["id"]] = [said for said in tables.messages[row["id"]] if said.role == "user"]
    return rows
