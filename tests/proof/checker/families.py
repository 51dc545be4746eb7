"""Families: turns that other turns have started. Each has its parent (I1), none was started twice, and what a parent answers
after a join is what has become of its children (I3). A parent that waits is not claimed (I16), and is woken when its children
have ended (I15).

A parent's reply says which children it joined, by which policy, and what it was given of each: `children`, with `outputs` in
their order or, if the policy could not be met, the child that is to blame as `lost`. Nothing promises when a parent is woken: to
be woken for nothing costs a run, and its handler asks again. That a join is not charged is judged with all attempts (I7).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.proof.checker.clients import COMMIT_SECONDS
from tests.proof.checker.ledger import Ledger, is_claim
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change, JoinChange, Row
from tests.proof.checker.vocabulary import CANCELED, FAILED, OPEN, PENDING, RUNNING, SUCCEEDED, TERMINAL

CHILD_FAILED = "ChildFailedError"
"""How a parent fails that does not catch what its join raises."""
LOST = frozenset({FAILED, CANCELED})
ROUNDED_SECONDS = 1.0
"""A worker reckons the time until a join's expiry by a clock of its own."""


@rule("I1")
def parents_exist(ledger: Ledger) -> Findings:
    for row in ledger.rows.values():
        if row.parent is not None and row.parent not in ledger.rows:
            yield row.turn_id, f"has a parent ({row.parent}) that is not there"


@rule("I3")
def calls_start_one_child(ledger: Ledger) -> Findings:
    """A call has one child in each generation of its parent."""
    for parent_id, children in ledger.children.items():
        if (parent := ledger.rows.get(parent_id)) is None:
            continue
        for key, many in Counter(child.child_key for child in children).items():
            if many > parent.generation:
                yield parent_id, f"started {many} children by call {key}, and is in generation {parent.generation}"
        births = Counter((child.child_key, _born_in(ledger, parent_id, child)) for child in children)
        for (key, generation), many in births.items():
            if many > 1 and generation is not None:
                yield parent_id, f"started {many} children by call {key} in generation {generation}"


def _born_in(ledger: Ledger, parent_id: str, child: Row) -> int | None:
    """The parent's generation when the child was started; None if it can't be known."""
    births = ledger.changes[child.turn_id]
    before = [change for change in ledger.changes[parent_id] if births and change.n < births[0].n]
    if not before:
        return None
    generation = before[-1].generation
    begun = next(change for change in before if change.generation == generation)
    return generation if generation == 1 or births[0].at - begun.at > COMMIT_SECONDS else None


@rule("I4")
def running_parents_start_children(ledger: Ledger) -> Findings:
    for parent_id, children in ledger.children.items():
        for child in children:
            birth = next(iter(ledger.changes[child.turn_id]), None)
            if birth is None or parent_id not in ledger.rows:
                continue
            since, changes = birth.at - COMMIT_SECONDS, ledger.changes[parent_id]
            meanwhile = [change for change in changes if since < change.at and change.n < birth.n]
            stood = [change for change in changes if change.at <= since][-1:]
            if all(change.after != RUNNING for change in (*stood, *meanwhile)):
                says = f"was started by {parent_id}, which had not been {RUNNING} for {COMMIT_SECONDS:g} s"
                yield child.turn_id, says


@rule("I3")
def parents_fail_for_children_that_failed(ledger: Ledger) -> Findings:
    for change in ledger.evidence.audit:
        if change.after == FAILED and change.error_class == CHILD_FAILED:
            children = ledger.children[change.turn_id]
            if not any(_was(ledger, child.turn_id, LOST, change.n) for child in children):
                yield change.turn_id, "failed for a child, and no child of it had failed"


@rule("I3")
def joins_are_answered(ledger: Ledger) -> Findings:
    """A parent's reply says what became of each child."""
    for turn_id in ledger.rows:
        reply = ledger.reply_of(turn_id)
        report = reply.get("family") if isinstance(reply, dict) else None
        settled = next((change for change in ledger.changes[turn_id] if change.after == SUCCEEDED), None)
        if report is not None and settled is not None:
            yield from about(turn_id, _misreported(ledger, turn_id, report, settled))


def _misreported(ledger: Ledger, turn_id: str, report: dict[str, Any], settled: Change) -> Iterator[str]:
    own = {child.turn_id: child for child in ledger.children[turn_id]}
    joined = list(report["children"])
    if strangers := [child for child in joined if child not in own]:
        yield f"joined {', '.join(strangers)}, which it has not started"
        return
    calls = {child.child_key for child in own.values()}
    if len(set(joined)) != len(joined) or {own[child].child_key for child in joined} != calls:
        yield f"joined {len(set(joined))} children, and has started {len(calls)}"
    elif report.get("lost") is not None:
        yield from _misblamed(ledger, report, joined, settled)
    else:
        yield from _misquoted(ledger, report, joined, settled)


def _misblamed(ledger: Ledger, report: dict[str, Any], joined: Sequence[str], settled: Change) -> Iterator[str]:
    lost = report["lost"]
    if lost["id"] not in joined or not _was(ledger, lost["id"], {lost["status"]}, settled.n, lost["error_class"]):
        yield f"was given child {lost['id']} as {lost['status']} ({lost['error_class']}), which it was not"
    if report["policy"] == "any":
        if open_ones := [child for child in joined if not _was(ledger, child, TERMINAL, settled.n)]:
            yield f"gave up although its children {', '.join(open_ones)} had not ended"
        if answered := [child for child in joined if _had_answered(ledger, child, settled)]:
            yield f"gave up although its children {', '.join(answered)} had answered"


def _misquoted(ledger: Ledger, report: dict[str, Any], joined: Sequence[str], settled: Change) -> Iterator[str]:
    for child, output in zip(joined, report["outputs"], strict=True):
        if output is None and report["policy"] == "any":
            if _had_answered(ledger, child, settled):
                yield f"was given nothing of child {child}, which had answered"
        elif not _was(ledger, child, {SUCCEEDED}, settled.n):
            yield f"was settled before its child {child} had answered"
        elif output != ledger.reply_of(child):
            yield f"was given {output!r} of child {child}, and its reply is {ledger.reply_of(child)!r}"
    if not any(report["outputs"]):
        yield "joined its children, and was given the answer of none"


def _was(
    ledger: Ledger, turn_id: str, statuses: set[str] | frozenset[str], before: int, error_class: str | None = None
) -> bool:
    return any(
        change.after in statuses and change.n < before and error_class in (None, change.error_class)
        for change in ledger.changes[turn_id]
    )


def _had_answered(ledger: Ledger, child: str, settled: Change) -> bool:
    """So long before the parent's last claim that it must have been seen: it was committed by then."""
    claim = ledger.claims.get((settled.turn_id, settled.fence))
    return claim is not None and any(
        change.after == SUCCEEDED and change.at + COMMIT_SECONDS < claim.at for change in ledger.changes[child]
    )


@rule("I16")
def waiting_parents_do_not_run(ledger: Ledger) -> Findings:
    for turn_id, joins in ledger.joins.items():
        waiting: JoinChange | None = None
        # Both kinds of record draw their numbers from one sequence, and under the row's lock: one replay shows it.
        records: list[Change | JoinChange] = [*ledger.changes[turn_id], *joins]
        for record in sorted(records, key=lambda record: record.n):
            if isinstance(record, JoinChange):
                waiting = record if record.after is not None else None
            elif is_claim(record) and waiting is not None and record.at + ROUNDED_SECONDS < waiting.expires_at:
                many = len(waiting.after or ())
                yield turn_id, f"was claimed under fence {record.fence} while it waited for {many} children"


@rule("I15")
def parents_are_woken(ledger: Ledger) -> Findings:
    for turn_id, joins in ledger.joins.items():
        row, waited_for = ledger.rows.get(turn_id), joins[-1].after
        if row is None or row.status != PENDING or waited_for is None:
            continue
        if all(child in ledger.rows and ledger.rows[child].status not in OPEN for child in waited_for):
            yield turn_id, f"waits at rest for {len(waited_for)} children, which have all ended"
