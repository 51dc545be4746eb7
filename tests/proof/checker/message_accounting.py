"""Messages: a dead letter for each FAILED turn (I9), and no delete before the outcome is safe (I10)."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.proof.checker.evidence import QueuedMessage, WireCall
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import FAILED, GENERATION_ATTRIBUTE, MALFORMED, OPEN, REASON_ATTRIBUTE, RUNNING

LOSES_MESSAGES = ("purge", "sqs restart", "sqs_restart")
"""In the kind of a fault that empties queues: a dead letter that had been sent may then be missing."""


def dead_letters_accounted(ledger: Ledger) -> Iterator[Violation]:
    """I9: every FAILED turn that is owed a dead letter has it, every dead letter has its FAILED turn, nothing is queued."""
    letters: defaultdict[tuple[str, int], int] = defaultdict(int)
    for message in ledger.evidence.queued:
        if not message.dead:
            if ledger.terms.rested_at is not None:
                turn_id = read_turn_id(message.body)
                says = f"message {message.message_id} is on the main queue at rest"
                yield Violation("I9", says, turn_id, turn_id and ledger.session_of(turn_id))
            continue
        yield from _letter(ledger, message, letters)
    excused = any(kind in fault.kind.lower() for fault in ledger.evidence.faults for kind in LOSES_MESSAGES)
    sent = {call.turn_id for call in ledger.evidence.wire if call.action == "send" and call.dead and call.effective}
    halting = {halt.session: halt.after for halt in ledger.evidence.halts}
    for turn_id, row in ledger.rows.items():
        if row.status in OPEN:
            continue
        if halting.get(row.session) == turn_id:
            # Not skipped yet: the skip will owe its dead letter.
            if row.send_at is not None or letters.get((turn_id, row.generation)):
                yield Violation("I9", "halts its session, and has a dead letter or is owed one", turn_id, row.session)
            continue
        for says in _owed(ledger, row, letters.get((turn_id, row.generation), 0), excused and turn_id in sent):
            yield Violation("I9", says, turn_id, row.session)


def _letter(ledger: Ledger, message: QueuedMessage, letters: dict[tuple[str, int], int]) -> Iterator[Violation]:
    turn_id = read_turn_id(message.body)
    reason = message.attributes.get(REASON_ATTRIBUTE, "")
    if turn_id is None:
        if not reason.startswith(MALFORMED):
            says = f"dead letter {message.message_id} can't be understood, and its reason is {reason!r}"
            yield Violation("I9", says)
        return
    row = ledger.rows.get(turn_id)
    named = message.attributes.get(GENERATION_ATTRIBUTE)
    if row is None:
        yield Violation("I9", f"has a dead letter ({message.message_id}) and no row", turn_id)
    elif named is None:
        # An ordinary wake-up that SQS moved after too many receives: it may lie there, it tells nothing.
        return
    elif not any(
        change.after == FAILED and change.generation == int(named) for change in ledger.changes.get(turn_id, ())
    ):
        says = f"has a dead letter of generation {named}, which never was FAILED"
        yield Violation("I9", says, turn_id, row.session)
    else:
        letters[turn_id, int(named)] += 1


def _owed(ledger: Ledger, row: Row, letters: int, lost: bool) -> Iterator[str]:
    if row.status != FAILED:
        if row.send_at is not None:
            yield f"is {row.status} and is owed a message"
        return
    # A turn that was skipped is dead-lettered whatever its handler asked for: a person has looked at it.
    if _unworthy(ledger, row) and not ledger.terms.halts:
        if letters or row.dead_lettered_at is not None:
            yield "was rejected without a dead letter, and has one"
        if row.send_at is not None:
            yield "was rejected without a dead letter, and is owed one"
        return
    if row.send_at is not None:
        yield f"is FAILED ({row.error_class}), and its dead letter is still to be sent"
    elif row.dead_lettered_at is None:
        yield f"is FAILED ({row.error_class}), and no dead letter was sent or is owed"
    elif not letters and not lost:
        yield f"is FAILED ({row.error_class}), and its dead letter of generation {row.generation} is not on the DLQ"


def _unworthy(ledger: Ledger, row: Row) -> bool:
    """The handler was asked to reject the turn without a dead letter, and that is how it ended."""
    order: Any = next((entry.content for entry in ledger.said.get(row.turn_id, ()) if entry.role == "user"), None)
    asked = isinstance(order, dict) and order.get("do") == "reject" and order.get("dead_letter") is False
    return asked and row.error_class == "Reject"


def read_turn_id(body: str) -> str | None:
    """The turn that a message names; None if it is not one of the product's."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    turn_id = fields.get("turn_id") if isinstance(fields, dict) else None
    whole = isinstance(turn_id, str) and fields.get("v") == 1 and {"tenant_id", "session_id"} <= fields.keys()
    return turn_id if whole else None


def deleted_after_commit(ledger: Ledger) -> Iterator[Violation]:
    """I10: a message is deleted once its turn is recorded, and by the hold that works on it after its first settlement.

    A message means "look at this session", so most deletes are lawful at any time: of a duplicate, of one that came while
    another worker was on the session. Only where a single delivery was ever made of the whole session is it certain that
    the delete comes from the worker that runs it; FIFO deletes after the claim, so nothing can be said.
    """
    deletes = [call for call in ledger.evidence.wire if call.action == "delete" and call.effective and not call.dead]
    if not deletes:
        return
    receives: defaultdict[str | None, list[float]] = defaultdict(list)
    copies: dict[str | None, float] = {}
    for call in ledger.evidence.wire:
        if call.effective and call.action == "receive" and not call.dead:
            receives[call.session].append(call.at)
        elif call.effective and call.action == "send" and call.dead and call.turn_id is None:
            copies[call.body] = min(call.at, copies.get(call.body, call.at))
    for call in deletes:
        if call.turn_id is None:
            if copies.get(call.body, call.at + 1) > call.at:
                yield Violation(
                    "I10", f"malformed message {call.message_id} was deleted with no copy on the DLQ: {call.body!r}"
                )
            continue
        for says in _too_early(ledger, call, receives[call.session]):
            yield Violation("I10", says, call.turn_id, call.session)


def _too_early(ledger: Ledger, call: WireCall, receives: list[float]) -> Iterator[str]:
    changes = ledger.changes.get(call.turn_id or "")
    if not changes:
        # A message of an unknown turn: nothing is lost.
        return
    if changes[0].at > call.at:
        yield f"its message {call.message_id} was deleted before the turn was recorded"
        return
    before = [at for at in receives if at <= call.at]
    if ledger.terms.fifo or len(before) != 1:
        return
    session = ledger.sessions[changes[0].tenant, changes[0].session]
    meanwhile = [change for change in session if before[0] <= change.at <= call.at]
    if not any(_ends_something(change) for change in meanwhile) and _running(changes, call.at):
        yield f"its message {call.message_id} was deleted while its only session run had settled nothing"


def _ends_something(change: Change) -> bool:
    return change.before == RUNNING and change.after != RUNNING


def _running(changes: list[Change], at: float) -> bool:
    standing = [change for change in changes if change.at <= at]
    return bool(standing) and standing[-1].after == RUNNING
