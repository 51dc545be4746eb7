"""Progress (I15): when the faults have stopped, everything comes to its end within the bound."""

from bisect import bisect_right

from tests.proof.checker.ledger import Ledger, grouped
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import OPEN, RUNNING

RESEND_SHARE = 0.8
"""A session in which nothing happened for so much of the resend time was waiting for it."""


@rule("I15")
def everything_ends(ledger: Ledger) -> Findings:
    """At rest nothing is open, rest came within the bound, and no lost claim waited for its takeover any longer."""
    terms = ledger.terms
    stuck = [row for row in ledger.evidence.turns if row.status in OPEN]
    for row in stuck:
        yield row.turn_id, f"is {row.status} at rest"
    if terms.rested_at is None:
        if not stuck:
            yield None, f"the run did not come to rest within {terms.bound_seconds:g} s of the last fault"
    elif terms.rested_at - terms.healed_at > terms.bound_seconds:
        took = terms.rested_at - terms.healed_at
        yield None, f"the run took {took:.1f} s to come to rest, of {terms.bound_seconds:g} s allowed"
    for (turn_id, fence), change in ledger.takeovers.items():
        waited = change.at - max(change.lease_before or change.at, terms.healed_at)
        if waited > terms.bound_seconds:
            says = f"fence {fence} was lost and waited {waited:.1f} s for its takeover after the last fault"
            yield turn_id, says


@rule("I15")
def no_turn_waits_for_its_resend(ledger: Ledger) -> Findings:
    """In a calm run no turn is begun only because the relay sent its wake-up once more.

    It counts as forgotten if at the second send no message of its session was on its way, no turn of it was RUNNING, and
    nothing had happened there for about the resend time. (A session run that ends at its bound owes its successor a send too.)
    """
    calls = [
        call for call in ledger.evidence.wire if call.effective and not call.dead and call.session and call.turn_id
    ]
    sends = grouped((call for call in calls if call.action == "send"), lambda call: str(call.turn_id))
    by_session = grouped(calls, lambda call: call.session)
    step = {"send": 1, "delete": -1}
    for turn_id, sent in sends.items() if ledger.terms.calm else ():
        changes, times = ledger.changes[turn_id], sorted(call.at for call in sent)
        # Equal times: several messages of one batch.
        if not changes or len(times) < 2 or times[1] == times[0]:
            continue
        again = times[1]
        begun = next((change.at for change in changes if change.after == RUNNING), None)
        on_their_way = sum(step.get(call.action, 0) for call in by_session[changes[0].session] if call.at < again)
        if begun is None or begun < again or on_their_way > 0:
            continue
        session = ledger.sessions[changes[0].tenant, changes[0].session]
        before = session[: bisect_right(session, again, key=lambda change: change.at)]
        if RUNNING in {change.turn_id: change.after for change in before}.values():
            continue
        if again - before[-1].at > RESEND_SHARE * ledger.terms.resend_seconds:
            yield turn_id, f"was forgotten until its resend deadline, {begun - times[0]:.1f} s later"
