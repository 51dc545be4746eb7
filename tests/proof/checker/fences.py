"""Fences and leases (I4): fences rise with every claim, nothing is written under an older one, leases run by one clock."""

from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger, is_claim, is_takeover
from tests.proof.checker.tables import Change
from tests.proof.checker.violation import Violation


def fences_rise(ledger: Ledger) -> Iterator[Violation]:
    for turn_id, changes in ledger.changes.items():
        highest = 0
        for change in changes:
            for says in (*_faults(change, highest), *_strange_lease(change, ledger.terms.lease_seconds)):
                yield Violation("I4", says, turn_id, change.session)
            highest = max(highest, change.fence)
    for (turn_id, fence), run in ledger.began.items():
        if (turn_id, fence) not in ledger.claims:
            yield Violation("I4", f"ran under fence {fence}, which no claim was given", turn_id, run.session)


def _faults(change: Change, highest: int) -> Iterator[str]:
    before, fence = change.fence_before, change.fence
    if before is None:
        return
    if before != highest:
        yield f"had fence {highest} and is changed from fence {before}: a change went unrecorded"
    if is_claim(change) or is_takeover(change):
        if fence <= highest:
            yield f"was claimed under fence {fence} after fence {highest} had been given"
    elif fence != before:
        yield f"fence {before} became {fence} without a claim ({change.before} to {change.after})"


def _strange_lease(change: Change, lease_seconds: float) -> Iterator[str]:
    """A lease by another clock than the database's ends when others do not expect it."""
    if is_claim(change) and change.lease_until is not None:
        given = change.lease_until - change.at
        if abs(given - lease_seconds) > max(1.0, lease_seconds):
            yield f"was claimed for {given:.1f} s by the database's clock, and a lease is {lease_seconds:g} s"
