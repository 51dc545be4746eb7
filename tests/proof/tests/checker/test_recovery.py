"""How soon turns go on: measured from the end of a killed worker, and from the end of a stopped worker's grace."""

from dataclasses import replace

from tests.proof.checker import figures
from tests.proof.checker.evidence import Evidence, Fault, Life
from tests.proof.tests.checker.scene import TERMS, Scene

NOBODY = {"many": 0, "median": None, "p99": None}


def claimed_by(worker: str, evidence: Evidence) -> Evidence:
    """The same run, with every claim made by that worker."""
    evidence.audit[:] = [replace(change, worker=worker) for change in evidence.audit]
    return evidence


def test_a_turn_runs_again_so_long_after_its_worker_was_killed() -> None:
    evidence = claimed_by("host-71-ab", Scene().submit().claim().take_over().settle().rest())
    taken = next(change for change in evidence.audit if change.before == change.after == "RUNNING")
    evidence.lives.append(Life(at=taken.at - 1.25, role="worker", pid=71, what="ended", code=-9))

    assert figures(evidence)["runs_again_after_kill"] == {"many": 1, "median": 1.25, "p99": 1.25}


def test_a_worker_that_ended_by_itself_was_not_killed() -> None:
    evidence = claimed_by("host-71-ab", Scene().submit().claim().take_over().settle().rest())
    evidence.lives.append(Life(at=100.5, role="worker", pid=71, what="ended", code=0))

    assert figures(evidence)["runs_again_after_kill"] == NOBODY


def test_a_turn_is_handed_back_so_long_after_the_grace_of_its_worker() -> None:
    evidence = claimed_by("host-71-ab", Scene().submit().claim().settle(outcome="released").claim().settle().rest())
    back = next(change for change in evidence.audit if change.before == "RUNNING" and change.after == "PENDING")
    told_at = back.at - TERMS.grace_seconds - 0.5
    evidence.faults.append(Fault(at=told_at, until=told_at, kind="worker-sigterm", target="worker-3 71"))

    assert figures(evidence)["handed_back_after_grace"] == {"many": 1, "median": 0.5, "p99": 0.5}
