"""Waste (I16): a handler that ran without a settle was taken over, and a lost lease has a cause."""

from bisect import bisect_left

from tests.proof.checker.ledger import Claim, Ledger
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import LOST, RUNNING

COSTS_NO_LEASE = ("block", "deaf", "table-locked", "rows-backfilled", "commits-hang", "redis")
"""In the kind of a fault that a lease has to outlive: the heartbeat has a thread of its own, no worker can renew, or no lease
needs it."""


def wasted(ledger: Ledger) -> list[Claim]:
    """The claims whose handler began and did not settle its turn."""
    return [claim for claim in ledger.began if claim not in ledger.settlements]


@rule("I16")
def wasted_runs_were_lost(ledger: Ledger) -> Findings:
    lost = {(record.turn_id, record.fence) for record in ledger.evidence.attempts if record.outcome == LOST}
    for turn_id, fence in wasted(ledger):
        row = ledger.rows.get(turn_id)
        runs_on = row is not None and row.status == RUNNING and row.fence == fence
        if ledger.terms.calm:
            yield turn_id, f"ran without a settle under fence {fence}, in a calm run"
        elif (turn_id, fence) not in lost and not runs_on:
            yield turn_id, f"ran under fence {fence}, which was neither settled nor lost"


@rule("I16")
def lost_leases_have_causes(ledger: Ledger) -> Findings:
    """Real processes have their ends on record: that of a worker or a fault explains each lost claim."""
    reach = ledger.terms.lease_seconds + ledger.terms.grace_seconds
    ends = sorted(life.at for life in ledger.evidence.lives if life.what == "ended" and life.role == "worker")
    for claim, taken in ledger.takeovers.items():
        turn_id, fence = claim
        given = ledger.claims.get(claim)
        if ledger.terms.calm:
            if claim not in ledger.began:
                yield turn_id, f"fence {fence} was lost in a calm run"
            continue
        if given is None or not ledger.evidence.lives:
            continue
        since, until = given.at - reach, taken.at
        place = bisect_left(ends, since)
        if place < len(ends) and ends[place] <= until:
            continue
        faults = ledger.faults_during(since, until)
        if all(any(kind in fault.kind for kind in COSTS_NO_LEASE) for fault in faults):
            yield turn_id, f"fence {fence} was lost, and nothing had happened to its worker ({given.worker})"
