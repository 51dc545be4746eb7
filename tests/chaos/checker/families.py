"""Families: turns that other turns have brought about. Each has its parent (I1), and none was started twice (I3)."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.checker.ledger import Ledger
from tests.chaos.checker.violation import Violation
from tests.chaos.checker.vocabulary import COMPENSATION, FAILED


def families(ledger: Ledger) -> Iterator[Violation]:
    """I1, I3: a child's parent is there; a call has one child in each generation of its parent, a failure one compensation."""
    calls: Counter[tuple[str, str]] = Counter()
    compensations: Counter[str] = Counter()
    for row in ledger.rows.values():
        if row.parent is None:
            continue
        if row.parent not in ledger.rows:
            yield Violation("I1", f"has a parent ({row.parent}) that is not there", row.turn_id, row.session)
        elif row.kind == COMPENSATION:
            compensations[row.parent] += 1
        else:
            calls[row.parent, row.child_key or ""] += 1
    for (parent, key), many in calls.items():
        row = ledger.rows[parent]
        if many > row.generation:
            says = f"started {many} children by call {key}, and is in generation {row.generation}"
            yield Violation("I3", says, parent, row.session)
    for parent, many in compensations.items():
        failures = sum(change.after == FAILED for change in ledger.changes.get(parent, ()))
        if many > failures:
            says = f"has {many} compensations and finally failed {failures} times"
            yield Violation("I3", says, parent, ledger.rows[parent].session)
