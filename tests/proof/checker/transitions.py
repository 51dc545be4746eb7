"""Transitions (I18): only those of the state diagram."""

from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change
from tests.proof.checker.vocabulary import CANCELED, FAILED, PENDING, RUNNING, SUCCEEDED, TERMINAL

ALLOWED: dict[str | None, frozenset[str]] = {
    None: frozenset({PENDING, CANCELED}),
    PENDING: frozenset({RUNNING, CANCELED}),
    RUNNING: frozenset({RUNNING, PENDING, SUCCEEDED, FAILED, CANCELED}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset({PENDING}),
    CANCELED: frozenset(),
}


@rule("I18")
def transitions(ledger: Ledger) -> Findings:
    """A change that leaves the status alone (a place given, a cancel requested) is not a transition.

    Born CANCELED is a turn whose cancel came before its submit: it says that it was asked to stop, and has no place in line.
    """
    for previous, change in ledger.steps():
        yield from about(change.turn_id, _faults(change, previous))


def _faults(change: Change, previous: Change | None) -> Iterator[str]:
    stood = None if previous is None else previous.after
    if change.before != stood:
        yield f"was left {stood or 'unborn'} and goes on from {change.before or 'its birth'}"
    if change.after not in ALLOWED.get(change.before, frozenset()) and change.after != change.before:
        yield f"went from {change.before or 'nothing'} to {change.after}"
    if previous is None:
        if change.after == CANCELED and not change.cancel_requested:
            yield "was inserted as CANCELED without a cancel"
        if change.after == CANCELED and change.seq is not None:
            yield f"was inserted as CANCELED with a seq ({change.seq})"
        if change.generation != 1:
            yield f"was born in generation {change.generation}"
        return
    risen = change.generation - previous.generation
    if risen != int(change.before == FAILED and change.after == PENDING):
        yield f"{change.before} to {change.after} moved it from generation {previous.generation} to {change.generation}"
    if previous.seq is not None and change.seq != previous.seq and not risen:
        yield f"its place in the session was changed from {previous.seq} to {change.seq}"
    if change.seq is None and (change.after == RUNNING or change.after in TERMINAL - {CANCELED}):
        yield f"is {change.after} without a place in its session"
