"""Attempts (I7): charged at the claim, and refunded where the handler did not fail. Crash loops (I8) end in time."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.proof.checker.ledger import Claim, Ledger, is_claim, is_settlement, is_takeover
from tests.proof.checker.tables import AttemptRecord, Change
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import (
    CANCELED,
    CHARGED_TO_THE_HANDLER,
    CLEARS_CRASHES,
    CRASH_LOOP,
    FAILED,
    FREE,
    LOST,
    PENDING,
    RUNNING,
    STATUS_AFTER,
)


class Counts(NamedTuple):
    """A turn's counters."""

    attempt: int
    failures: int
    crashes: int


NONE = Counts(0, 0, 0)


def attempts_counted(ledger: Ledger) -> Iterator[Violation]:
    """I7: every claim counts one attempt, a release or snooze gives it back; records and counters tell the same."""
    for turn_id, changes in ledger.changes.items():
        session = changes[0].session
        records: dict[int, AttemptRecord] = {}
        for record in ledger.attempts.get(turn_id, ()):
            if record.fence in records:
                yield Violation("I7", f"fence {record.fence} has two attempt records", turn_id, session)
            records[record.fence] = record
        row = ledger.rows.get(turn_id)
        budget = (row.max_attempts if row is not None else None) or ledger.terms.max_attempts
        counts, lost = NONE, 0
        for change in changes:
            lost = 0 if change.before == FAILED else lost + is_takeover(change)
            for says in _miscounts(change, counts, lost, records, budget):
                yield Violation("I7", says, turn_id, session)
            counts = Counts(change.attempt, change.failures, change.crashes)
        if row is not None and counts != (row.attempt, row.failures, row.crashes):
            says = f"the row counts {(row.attempt, row.failures, row.crashes)}, its last change {tuple(counts)}"
            yield Violation("I7", f"{says} (attempt, failures, crashes)", turn_id, session)
        for record in records.values():
            for says in _unfounded(ledger, (turn_id, record.fence), record):
                yield Violation("I7", says, turn_id, session)


def _miscounts(change: Change, was: Counts, lost: int, records: dict[int, AttemptRecord], budget: int) -> Iterator[str]:
    if change.attempt_before is not None and change.attempt_before != was.attempt:
        yield f"attempt {was.attempt} became {change.attempt_before} without a change of the turn"
    now = Counts(change.attempt, change.failures, change.crashes)
    if is_claim(change) and change.attempt != change.failures + lost + 1:
        yield (
            f"was claimed as attempt {change.attempt} after {change.failures} failures and {lost} lost claims"
            f" (fence {change.fence})"
        )
    record = None
    if is_takeover(change):
        record = records.get(change.fence_before or 0)
        if record is None or record.outcome != LOST:
            yield f"fence {change.fence_before} was taken over, and no record says that it was lost"
    elif is_settlement(change):
        record = records.get(change.fence)
        if record is None or STATUS_AFTER.get(record.outcome) != change.after:
            wrong = "has no attempt record" if record is None else f"is recorded as {record.outcome}"
            yield f"fence {change.fence} was settled as {change.after} and {wrong}"
            return
        if record.outcome == "retried" and change.failures >= budget:
            yield f"was to be tried again after {change.failures} failures, of {budget} allowed"
    if change.failures > budget:
        yield f"has {change.failures} failures, of {budget} allowed"
    if record is not None and record.attempt != was.attempt:
        yield f"fence {record.fence} ran as attempt {was.attempt} and is recorded as attempt {record.attempt}"
    due = _expected(change, was, record)
    if now not in due:
        yield f"{change.before} to {change.after} made {tuple(was)} to {tuple(now)} (attempt, failures, crashes)"


def _expected(change: Change, was: Counts, record: AttemptRecord | None) -> tuple[Counts, ...]:
    attempt, failures, crashes = was
    if change.before is None or (change.before == FAILED and change.after == PENDING):
        return (NONE,)
    if is_takeover(change):
        return (Counts(attempt + (change.after == RUNNING), failures, crashes + 1),)
    if is_claim(change):
        return (Counts(attempt + 1, failures, crashes),)
    if record is None:
        return (was,)
    if change.after == CANCELED:
        # The handler may have failed a moment before: that is counted, the cancel stands.
        return (was, Counts(attempt, failures + 1, crashes))
    if record.outcome in CLEARS_CRASHES:
        crashes = 0
    if record.outcome in FREE:
        return (Counts(attempt - 1, failures, crashes),)
    return (Counts(attempt, failures + (record.outcome in CHARGED_TO_THE_HANDLER), crashes),)


def _unfounded(ledger: Ledger, claim: Claim, record: AttemptRecord) -> Iterator[str]:
    if claim not in ledger.claims:
        yield f"an attempt is recorded under fence {record.fence}, which no claim was given"
    elif record.outcome == LOST:
        if claim not in ledger.takeovers:
            yield f"fence {record.fence} is recorded as lost, and no worker took it over"
    elif claim not in ledger.settlements:
        yield f"fence {record.fence} is recorded as {record.outcome}, and no change of the turn was that"


def poison_contained(ledger: Ledger) -> Iterator[Violation]:
    """I8: one turn costs so many workers as the terms allow and no more; then it is FAILED, and not before."""
    most = ledger.terms.max_crashes
    for turn_id, changes in ledger.changes.items():
        for change in changes:
            if change.crashes and is_takeover(change) and change.after == RUNNING and change.crashes >= most:
                says = f"was run again after {change.crashes} lost claims, of {most} allowed"
                yield Violation("I8", says, turn_id, change.session)
            if change.after == FAILED and change.error_class == CRASH_LOOP and change.crashes < most:
                says = f"was given up for a crash loop after {change.crashes} lost claims, of {most} allowed"
                yield Violation("I8", says, turn_id, change.session)
    for turn_id, records in ledger.attempts.items():
        lost: dict[int, int] = {}
        for record in sorted(records, key=lambda one: one.fence):
            if record.outcome in CLEARS_CRASHES:
                lost[record.generation] = 0
            elif record.outcome == LOST:
                many = lost[record.generation] = lost.get(record.generation, 0) + 1
                if many == most + 1:
                    says = f"lost {many} claims in generation {record.generation}, of {most} allowed"
                    yield Violation("I8", says, turn_id, ledger.session_of(turn_id))
