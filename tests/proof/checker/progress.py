"""Progress (I15): when the faults have stopped, everything comes to its end within the bound."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import OPEN, RUNNING

RESEND_SHARE = 0.8
"""A session in which nothing happened for so much of the resend time was waiting for it."""


def progress(ledger: Ledger) -> Iterator[Violation]:
    """I15: at rest nothing is open, rest came within the bound, and no lost claim waited for its takeover any longer."""
    terms = ledger.terms
    stuck = [row for row in ledger.evidence.turns if row.status in OPEN]
    for row in stuck:
        yield Violation("I15", f"is {row.status} at rest", row.turn_id, row.session)
    if terms.rested_at is None:
        if not stuck:
            yield Violation("I15", f"the run did not come to rest within {terms.bound_seconds:g} s of the last fault")
    elif terms.rested_at - terms.healed_at > terms.bound_seconds:
        took = terms.rested_at - terms.healed_at
        yield Violation("I15", f"the run took {took:.1f} s to come to rest, of {terms.bound_seconds:g} s allowed")
    for (turn_id, fence), change in ledger.takeovers.items():
        if change.lease_before is None:
            continue
        waited = change.at - max(change.lease_before, terms.healed_at)
        if waited > terms.bound_seconds:
            says = f"fence {fence} was lost and waited {waited:.1f} s for its takeover after the last fault"
            yield Violation("I15", says, turn_id, change.session)


def nobody_forgotten(ledger: Ledger) -> Iterator[Violation]:
    """I15, of a calm run: no turn is begun only because the relay sent its wake-up once more.

    It counts as forgotten if at the second send no message of its session was on its way, no turn of it was RUNNING, and
    nothing had happened there for about the resend time. (A hold that ends at its bound owes its successor a send too.)
    """
    if not ledger.terms.calm:
        return
    sends: dict[str, list[float]] = defaultdict(list)
    coming: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for call in ledger.evidence.wire:
        if call.dead or not call.effective or call.session is None or call.turn_id is None:
            continue
        if call.action == "send":
            sends[call.turn_id].append(call.at)
            coming[call.session].append((call.at, 1))
        elif call.action == "delete":
            coming[call.session].append((call.at, -1))
    for turn_id, times in sends.items():
        if len(times) < 2 or not (changes := ledger.changes.get(turn_id)):
            continue
        again, session = sorted(times)[1], changes[0].session
        begun = next((change.at for change in changes if change.after == RUNNING), None)
        # Equal times: several messages of one batch.
        on_their_way = sum(many for at, many in coming[session] if at < again) if again > min(times) else 1
        if begun is None or begun < again or on_their_way > 0:
            continue
        if _is_forgotten(ledger, (changes[0].tenant, session), again):
            yield Violation(
                "I15", f"was forgotten until its resend deadline, {begun - times[0]:.1f} s later", turn_id, session
            )


def _is_forgotten(ledger: Ledger, session: tuple[str, str], at: float) -> bool:
    changes = ledger.sessions[session]
    before = changes[: bisect_right(changes, at, key=lambda change: change.at)]
    state = {change.turn_id: change.after for change in before}
    return RUNNING not in state.values() and at - before[-1].at > RESEND_SHARE * ledger.terms.resend_seconds
