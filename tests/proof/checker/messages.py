"""Messages: a dead letter for each FAILED turn (I9), and no delete before the outcome is safe (I10)."""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.proof.checker.evidence import QueuedMessage, WireCall
from tests.proof.checker.ledger import Ledger, grouped
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.vocabulary import FAILED, GENERATION_ATTRIBUTE, MALFORMED, OPEN, REASON_ATTRIBUTE, RUNNING

LOSES_MESSAGES = ("purge", "sqs restart", "sqs_restart")
"""In the kind of a fault that empties queues: a dead letter that had been sent may then be missing."""


def read_turn_id(body: str) -> str | None:
    """The turn that a message names; None if it is not one of the product's."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    turn_id = fields.get("turn_id") if isinstance(fields, dict) else None
    whole = isinstance(turn_id, str) and fields.get("v") == 1 and {"tenant_id", "session_id"} <= fields.keys()
    return turn_id if whole else None


def dead_letters(ledger: Ledger) -> Iterator[tuple[QueuedMessage, str | None, int | None]]:
    """Those at rest, the turn that each names, and the generation.

    None: an ordinary wake-up that SQS moved after too many receives. It may lie there, and means nothing.
    """
    for message in ledger.evidence.queued:
        if message.dead:
            generation = message.attributes.get(GENERATION_ATTRIBUTE)
            yield message, read_turn_id(message.body), None if generation is None else int(generation)


@rule("I9")
def main_queues_are_empty(ledger: Ledger) -> Findings:
    for message in ledger.evidence.queued:
        if not message.dead and ledger.terms.rested_at is not None:
            yield read_turn_id(message.body), f"message {message.message_id} is on the main queue at rest"


@rule("I9")
def dead_letters_have_turns(ledger: Ledger) -> Findings:
    for message, turn_id, generation in dead_letters(ledger):
        if turn_id is None:
            reason = message.attributes.get(REASON_ATTRIBUTE, "")
            if not reason.startswith(MALFORMED):
                yield None, f"dead letter {message.message_id} can't be understood, and its reason is {reason!r}"
        elif turn_id not in ledger.rows:
            yield turn_id, f"has a dead letter ({message.message_id}) and no row"
        elif generation is not None and not _failed_in(ledger, turn_id, generation):
            yield turn_id, f"has a dead letter of generation {generation}, which never was FAILED"


def _failed_in(ledger: Ledger, turn_id: str, generation: int) -> bool:
    return any(change.after == FAILED and change.generation == generation for change in ledger.changes[turn_id])


@rule("I9")
def failed_turns_have_dead_letters(ledger: Ledger) -> Findings:
    letters = Counter(
        (turn_id, generation)
        for _, turn_id, generation in dead_letters(ledger)
        if turn_id is not None and generation is not None and _failed_in(ledger, turn_id, generation)
    )
    purged = any(kind in fault.kind.lower() for fault in ledger.evidence.faults for kind in LOSES_MESSAGES)
    sent = {call.turn_id for call in ledger.evidence.wire if call.action == "send" and call.dead and call.effective}
    halting = {halt.session: halt.after for halt in ledger.evidence.halts}
    for turn_id, row in ledger.rows.items():
        many = letters[turn_id, row.generation]
        if row.status in OPEN:
            continue
        if halting.get(row.session) == turn_id:
            # Not skipped yet: the skip will owe its dead letter.
            if row.send_at is not None or many:
                yield turn_id, "halts its session, and has a dead letter or is owed one"
            continue
        yield from about(turn_id, _owed(ledger, row, many, purged and turn_id in sent))


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
    elif row.send_at is not None:
        yield f"is FAILED ({row.error_class}), and its dead letter is still to be sent"
    elif row.dead_lettered_at is None:
        yield f"is FAILED ({row.error_class}), and no dead letter was sent or is owed"
    elif not letters and not lost:
        yield f"is FAILED ({row.error_class}), and its dead letter of generation {row.generation} is not on the DLQ"


def _unworthy(ledger: Ledger, row: Row) -> bool:
    """The handler was asked to reject the turn without a dead letter, and that is how it ended."""
    order = ledger.order_of(row.turn_id)
    return order.get("do") == "reject" and order.get("dead_letter") is False and row.error_class == "Reject"


@rule("I10")
def malformed_messages_are_copied(ledger: Ledger) -> Findings:
    copied: defaultdict[str | None, float] = defaultdict(lambda: float("inf"))
    for call in ledger.evidence.wire:
        if call.effective and call.action == "send" and call.dead and call.turn_id is None:
            copied[call.body] = min(call.at, copied[call.body])
    for call in _deletes(ledger):
        if call.turn_id is None and copied[call.body] > call.at:
            yield None, f"malformed message {call.message_id} was deleted with no copy on the DLQ: {call.body!r}"


@rule("I10")
def deleted_after_commit(ledger: Ledger) -> Findings:
    """A message is deleted once its turn is recorded, and by the session run that works on it after its first settlement.

    A message means "look at this session", so most deletes are lawful at any time: of a duplicate, of one that came while
    another worker was on the session. Only where a single delivery was ever made of the whole session is it certain that
    the delete comes from the worker that runs it; FIFO deletes after the claim, so nothing can be said. Nor can it of a
    message whose session a limit has put off: another worker may begin it without a message.
    """
    put_off = {line.turn_id for line in ledger.evidence.logs if line.event == "session.limited"}
    received = (call for call in ledger.evidence.wire if call.effective and call.action == "receive" and not call.dead)
    receives = grouped(received, lambda call: call.session)
    for call in _deletes(ledger):
        changes = ledger.changes[call.turn_id or ""]
        if not changes:
            # A message of an unknown turn: nothing is lost.
            continue
        before = [receive.at for receive in receives[call.session] if receive.at <= call.at]
        if changes[0].at > call.at:
            yield call.turn_id, f"its message {call.message_id} was deleted before the turn was recorded"
        elif ledger.terms.fifo or len(before) != 1 or call.turn_id in put_off:
            continue
        elif _settled_nothing(ledger, changes, before[0], call.at):
            says = f"its message {call.message_id} was deleted while its only session run had settled nothing"
            yield call.turn_id, says


def _deletes(ledger: Ledger) -> list[WireCall]:
    return [call for call in ledger.evidence.wire if call.action == "delete" and call.effective and not call.dead]


def _settled_nothing(ledger: Ledger, changes: list[Change], since: float, at: float) -> bool:
    """No turn of the session ended since then, and this one was RUNNING."""
    session = ledger.sessions[changes[0].tenant, changes[0].session]
    if any(change.before == RUNNING != change.after and since <= change.at <= at for change in session):
        return False
    standing = bisect_right(changes, at, key=lambda change: change.at)
    return changes[standing - 1].after == RUNNING
