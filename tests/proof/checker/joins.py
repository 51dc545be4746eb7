"""Joins: a parent that waits is not claimed (I16), and is woken when its children have ended (I15).

When it is woken is no promise: to be woken for nothing costs a run, and its handler asks again. What it then answers is
judged in `families`; that a join is not charged, with all attempts (I7).
"""

from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import Ledger, is_claim
from tests.proof.checker.tables import Change, JoinChange
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import OPEN, PENDING

ROUNDED_SECONDS = 1.0
"""A worker reckons the time until the expiry by a clock of its own."""


def joins_kept(ledger: Ledger) -> Iterator[Violation]:
    """I15, I16. Both kinds of record draw their numbers from one sequence, and under the row's lock: one replay tells."""
    for turn_id, joins in ledger.joins.items():
        for says in _claimed_while_waiting(ledger.changes.get(turn_id, ()), joins):
            yield Violation("I16", says, turn_id, ledger.session_of(turn_id))
        row, last = ledger.rows.get(turn_id), joins[-1]
        if row is None or row.status != PENDING or last.after is None:
            continue
        waited_for = [ledger.rows.get(child) for child in last.after]
        if all(child is not None and child.status not in OPEN for child in waited_for):
            says = f"waits at rest for {len(waited_for)} children, which have all ended"
            yield Violation("I15", says, turn_id, row.session)


def _claimed_while_waiting(changes: Sequence[Change], joins: Sequence[JoinChange]) -> Iterator[str]:
    waiting: JoinChange | None = None
    records: list[Change | JoinChange] = [*changes, *joins]
    for record in sorted(records, key=lambda record: record.n):
        if isinstance(record, JoinChange):
            waiting = record if record.after is not None else None
        elif is_claim(record) and waiting is not None and record.at + ROUNDED_SECONDS < waiting.expires_at:
            yield f"was claimed under fence {record.fence} while it waited for {len(waiting.after or ())} children"
