"""Waste (I16): a handler that ran in vain was taken over, and a lost lease has a cause."""

from bisect import bisect_left
from collections.abc import Iterator

from tests.proof.checker.ledger import Claim, Ledger
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import LOST, RUNNING

COSTS_NO_LEASE = ("block", "deaf", "table-locked")
"""In the kind of a fault that a lease has to outlive: the heartbeat has a thread of its own, or no worker can renew."""


def wasted(ledger: Ledger) -> list[Claim]:
    """The claims whose handler began and did not settle its turn."""
    return [claim for claim in ledger.began if claim not in ledger.settlements]


def waste(ledger: Ledger) -> Iterator[Violation]:
    """I16: unsettled runs are at most the lost claims, lost claims at most what ends of workers and faults explain."""
    lost = {
        (turn_id, record.fence)
        for turn_id, records in ledger.attempts.items()
        for record in records
        if record.outcome == LOST
    }
    for claim in wasted(ledger):
        turn_id, fence = claim
        session = ledger.began[claim].session
        row = ledger.rows.get(turn_id)
        runs_on = row is not None and row.status == RUNNING and row.fence == fence
        if ledger.terms.calm:
            yield Violation("I16", f"ran in vain under fence {fence}, in a calm run", turn_id, session)
        elif claim not in lost and not runs_on:
            yield Violation("I16", f"ran under fence {fence}, which was neither settled nor lost", turn_id, session)
    for claim, taken in ledger.takeovers.items():
        if ledger.terms.calm and claim not in ledger.began:
            yield Violation("I16", f"fence {claim[1]} was lost in a calm run", claim[0], taken.session)
    if ledger.evidence.lives and not ledger.terms.calm:
        yield from _unexplained(ledger)


def _unexplained(ledger: Ledger) -> Iterator[Violation]:
    """Lost claims during which no process ended and no fault struck. Only for real processes, whose ends are on record."""
    reach = ledger.terms.lease_seconds + ledger.terms.grace_seconds
    ends = sorted(life.at for life in ledger.evidence.lives if life.what == "ended")
    faults = [
        (fault.at, fault.until)
        for fault in ledger.evidence.faults
        if not any(kind in fault.kind for kind in COSTS_NO_LEASE)
    ]
    for claim, taken in ledger.takeovers.items():
        given = ledger.claims.get(claim)
        if given is None:
            continue
        since, until = given.at - reach, taken.at
        place = bisect_left(ends, since)
        if place < len(ends) and ends[place] <= until:
            continue
        if not any(at <= until and end >= since for at, end in faults):
            says = f"fence {claim[1]} was lost, and nothing had happened to its worker ({given.worker})"
            yield Violation("I16", says, claim[0], taken.session)
