"""Families: turns that other turns have started. Each has its parent (I1), none was started twice, and what a parent answers
after a join is what has become of its children (I3).

A parent's reply says which children it joined, by which policy, and what it was given of each: `children`, with `outputs` in
their order or, if the policy could not be met, the child that is to blame as `lost`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.proof.checker.clients import COMMIT_SECONDS
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import CANCELED, FAILED, RUNNING, SUCCEEDED, TERMINAL

CHILD_FAILED = "ChildFailedError"
"""How a parent fails that does not catch what its join raises."""
LOST = frozenset({FAILED, CANCELED})


def families(ledger: Ledger) -> Iterator[Violation]:
    """I1, I3: a child's parent is there, and was at work; a call has one child in each generation of its parent."""
    for row in ledger.rows.values():
        if row.parent is not None and row.parent not in ledger.rows:
            yield Violation("I1", f"has a parent ({row.parent}) that is not there", row.turn_id, row.session)
    for parent_id, children in ledger.children.items():
        parent = ledger.rows.get(parent_id)
        if parent is None:
            continue
        calls = Counter(child.child_key for child in children)
        for key, many in calls.items():
            if many > parent.generation:
                says = f"started {many} children by call {key}, and is in generation {parent.generation}"
                yield Violation("I3", says, parent_id, parent.session)
        births = Counter((child.child_key, _born_in(ledger, parent_id, child)) for child in children)
        for (key, generation), many in births.items():
            if many > 1 and generation is not None:
                says = f"started {many} children by call {key} in generation {generation}"
                yield Violation("I3", says, parent_id, parent.session)
        for child in children:
            if _was_at_rest(ledger, parent_id, child):
                says = f"was started by {parent_id}, which had not been {RUNNING} for {COMMIT_SECONDS:g} s"
                yield Violation("I4", says, child.turn_id, child.session)


def _born_in(ledger: Ledger, parent_id: str, child: Row) -> int | None:
    """The parent's generation when the child was started; None if it can't be told."""
    births = ledger.changes.get(child.turn_id)
    before = [change for change in ledger.changes.get(parent_id, ()) if births and change.n < births[0].n]
    if not births or not before:
        return None
    generation = before[-1].generation
    begun = next(change for change in before if change.generation == generation)
    return generation if generation == 1 or births[0].at - begun.at > COMMIT_SECONDS else None


def _was_at_rest(ledger: Ledger, parent_id: str, child: Row) -> bool:
    births = ledger.changes.get(child.turn_id)
    if not births:
        return False
    birth, changes = births[0], ledger.changes.get(parent_id, ())
    meanwhile = [change for change in changes if birth.at - COMMIT_SECONDS < change.at and change.n < birth.n]
    stood = [change for change in changes if change.at <= birth.at - COMMIT_SECONDS][-1:]
    return all(change.after != RUNNING for change in (*stood, *meanwhile))


def joins_answered(ledger: Ledger) -> Iterator[Violation]:
    """I3: a parent's reply says what became of each child, and no parent fails for a child that has not failed."""
    for turn_id, row in ledger.rows.items():
        changes = ledger.changes.get(turn_id, ())
        for change in changes:
            if change.after == FAILED and change.error_class == CHILD_FAILED and not _a_child_was_lost(ledger, change):
                yield Violation("I3", "failed for a child, and no child of it had failed", turn_id, row.session)
        reply = ledger.reply_of(turn_id)
        told = reply.get("family") if isinstance(reply, dict) else None
        settled = next((change for change in changes if change.after == SUCCEEDED), None)
        if told is not None and settled is not None:
            for says in _misreported(ledger, row, told, settled):
                yield Violation("I3", says, turn_id, row.session)


def _a_child_was_lost(ledger: Ledger, failure: Change) -> bool:
    return any(_was(ledger, child.turn_id, LOST, failure.n) for child in ledger.children.get(failure.turn_id, ()))


def _misreported(ledger: Ledger, row: Row, told: dict[str, Any], settled: Change) -> Iterator[str]:
    own = {child.turn_id: child for child in ledger.children.get(row.turn_id, ())}
    joined = list(told["children"])
    if strangers := [child for child in joined if child not in own]:
        yield f"joined {', '.join(strangers)}, which it has not started"
        return
    calls = {child.child_key for child in own.values()}
    if len(set(joined)) != len(joined) or {own[child].child_key for child in joined} != calls:
        yield f"joined {len(set(joined))} children, and has started {len(calls)}"
    elif told.get("lost") is not None:
        yield from _misblamed(ledger, told, joined, settled)
    else:
        yield from _misquoted(ledger, told, joined, settled)


def _misblamed(ledger: Ledger, told: dict[str, Any], joined: Sequence[str], settled: Change) -> Iterator[str]:
    lost = told["lost"]
    if lost["id"] not in joined or not _was(ledger, lost["id"], {lost["status"]}, settled.n, lost["error_class"]):
        yield f"was told that child {lost['id']} is {lost['status']} ({lost['error_class']}), which it was not"
    if told["policy"] == "any":
        if open_ones := [child for child in joined if not _was(ledger, child, TERMINAL, settled.n)]:
            yield f"gave up although its children {', '.join(open_ones)} had not ended"
        if answered := [child for child in joined if _had_answered(ledger, child, settled)]:
            yield f"gave up although its children {', '.join(answered)} had answered"


def _misquoted(ledger: Ledger, told: dict[str, Any], joined: Sequence[str], settled: Change) -> Iterator[str]:
    for child, output in zip(joined, told["outputs"], strict=True):
        if output is None and told["policy"] == "any":
            if _had_answered(ledger, child, settled):
                yield f"was told nothing of child {child}, which had answered"
        elif not _was(ledger, child, {SUCCEEDED}, settled.n):
            yield f"was settled before its child {child} had answered"
        elif output != ledger.reply_of(child):
            yield f"was told that child {child} answered {output!r}, and its reply is {ledger.reply_of(child)!r}"
    if not any(told["outputs"]):
        yield "joined its children, and was told the answer of none"


def _was(
    ledger: Ledger, turn_id: str, statuses: set[str] | frozenset[str], before: int, error_class: str | None = None
) -> bool:
    return any(
        change.after in statuses and change.n < before and (error_class is None or change.error_class == error_class)
        for change in ledger.changes.get(turn_id, ())
    )


def _had_answered(ledger: Ledger, child: str, settled: Change) -> bool:
    """So long before the parent's last claim that it must have been seen: it was committed by then."""
    claim = ledger.claims.get((settled.turn_id, settled.fence))
    return claim is not None and any(
        change.after == SUCCEEDED and change.at + COMMIT_SECONDS < claim.at for change in ledger.changes.get(child, ())
    )
