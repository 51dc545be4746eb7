"""Attempts (I7): charged at the claim, and refunded where the handler did not fail. Crash loops (I8) end in time."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.proof.checker.ledger import Claim, Ledger, is_claim, is_settlement, is_takeover
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import AttemptRecord, Change
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
    attempt: int
    failures: int
    crashes: int


NONE = Counts(0, 0, 0)


@rule("I7")
def attempts_counted(ledger: Ledger) -> Findings:
    """Every claim counts one attempt, a release or snooze gives it back; the counters and the records agree."""
    records = {(one.turn_id, one.fence): one for one in ledger.evidence.attempts}
    for turn_id, changes in ledger.changes.items():
        row = ledger.rows.get(turn_id)
        budget = (row.max_attempts if row is not None else None) or ledger.terms.max_attempts
        counts, lost = NONE, 0
        for change in changes:
            lost = 0 if change.before == FAILED else lost + is_takeover(change)
            yield from about(turn_id, _miscounts(change, counts, lost, records, budget))
            counts = Counts(change.attempt, change.failures, change.crashes)
        if row is not None and counts != (row.attempt, row.failures, row.crashes):
            says = f"the row counts {(row.attempt, row.failures, row.crashes)}, its last change {tuple(counts)}"
            yield turn_id, f"{says} (attempt, failures, crashes)"


def _miscounts(
    change: Change, was: Counts, lost: int, records: dict[Claim, AttemptRecord], budget: int
) -> Iterator[str]:
    if change.attempt_before is not None and change.attempt_before != was.attempt:
        yield f"attempt {was.attempt} became {change.attempt_before} without a change of the turn"
    now = Counts(change.attempt, change.failures, change.crashes)
    if is_claim(change) and change.attempt != change.failures + lost + 1:
        says = f"was claimed as attempt {change.attempt} after {change.failures} failures and {lost} lost claims"
        yield f"{says} (fence {change.fence})"
    record = None
    if is_takeover(change):
        record = records.get((change.turn_id, change.fence_before or 0))
        if record is None or record.outcome != LOST:
            yield f"fence {change.fence_before} was taken over, and no record says that it was lost"
    elif is_settlement(change):
        record = records.get((change.turn_id, change.fence))
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
    if now not in _expected(change, was, record):
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
    return (
        Counts(
            attempt - (record.outcome in FREE),
            failures + (record.outcome in CHARGED_TO_THE_HANDLER),
            0 if record.outcome in CLEARS_CRASHES else crashes,
        ),
    )


@rule("I7")
def attempt_records_are_founded(ledger: Ledger) -> Findings:
    for (turn_id, fence), many in Counter((one.turn_id, one.fence) for one in ledger.evidence.attempts).items():
        if many > 1:
            yield turn_id, f"fence {fence} has two attempt records"
    for record in ledger.evidence.attempts:
        claim = (record.turn_id, record.fence)
        if claim not in ledger.claims:
            yield record.turn_id, f"an attempt is recorded under fence {record.fence}, which no claim was given"
        elif record.outcome == LOST and claim not in ledger.takeovers:
            yield record.turn_id, f"fence {record.fence} is recorded as lost, and no worker took it over"
        elif record.outcome != LOST and claim not in ledger.settlements:
            yield (
                record.turn_id,
                f"fence {record.fence} is recorded as {record.outcome}, and no change of the turn was that",
            )


@rule("I8")
def crash_loops_end(ledger: Ledger) -> Findings:
    """One turn costs at most as many workers as the terms allow; then it is FAILED, and not before."""
    most = ledger.terms.max_crashes
    for change in ledger.evidence.audit:
        if change.crashes >= most and is_takeover(change) and change.after == RUNNING:
            yield change.turn_id, f"was run again after {change.crashes} lost claims, of {most} allowed"
        if change.after == FAILED and change.error_class == CRASH_LOOP and change.crashes < most:
            says = f"was given up for a crash loop after {change.crashes} lost claims, of {most} allowed"
            yield change.turn_id, says
    for turn_id, records in ledger.attempts.items():
        lost: Counter[int] = Counter()
        for record in sorted(records, key=lambda one: one.fence):
            if record.outcome in CLEARS_CRASHES:
                lost[record.generation] = 0
            elif record.outcome == LOST:
                lost[record.generation] += 1
                if lost[record.generation] == most + 1:
                    says = f"lost {most + 1} claims in generation {record.generation}, of {most} allowed"
                    yield turn_id, says
