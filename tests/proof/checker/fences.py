"""Fences and leases (I4): fences rise with every claim, nothing is written under an older one, leases run by one clock."""

from collections import defaultdict

from tests.proof.checker.ledger import Ledger, is_claim, is_takeover
from tests.proof.checker.rule import Findings, rule


@rule("I4")
def fences_rise(ledger: Ledger) -> Findings:
    highest: defaultdict[str, int] = defaultdict(int)
    for change in ledger.evidence.audit:
        turn_id, before, fence, most = change.turn_id, change.fence_before, change.fence, highest[change.turn_id]
        highest[turn_id] = max(most, fence)
        if before is None:
            continue
        if before != most:
            yield turn_id, f"had fence {most} and is changed from fence {before}: a change went unrecorded"
        if is_claim(change) or is_takeover(change):
            if fence <= most:
                yield turn_id, f"was claimed under fence {fence} after fence {most} had been given"
        elif fence != before:
            yield turn_id, f"fence {before} became {fence} without a claim ({change.before} to {change.after})"


@rule("I4")
def runs_have_claims(ledger: Ledger) -> Findings:
    for turn_id, fence in ledger.began:
        if (turn_id, fence) not in ledger.claims:
            yield turn_id, f"ran under fence {fence}, which no claim was given"


@rule("I4")
def leases_go_by_one_clock(ledger: Ledger) -> Findings:
    """A lease by another clock than the database's ends when others do not expect it."""
    lease = ledger.terms.lease_seconds
    for change in ledger.claims.values():
        given = lease if change.lease_until is None else change.lease_until - change.at
        if abs(given - lease) > max(1.0, lease):
            says = f"was claimed for {given:.1f} s by the database's clock, and a lease is {lease:g} s"
            yield change.turn_id, says
