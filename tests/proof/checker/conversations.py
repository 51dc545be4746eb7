"""Conversations (I21): a session in which a transcript is spoken line by line comes out as the transcript, as far as it got.

The handler answers from its history and its memory, so that every reply tells whether both were right: a remark that was
lost, doubled, moved or forgotten shows in the next one.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.proof.checker.evidence import Row
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import COMPENSATION, SUCCEEDED


def conversations(ledger: Ledger) -> Iterator[Violation]:
    """I21: the remarks that were answered are the first ones, in order, and the replies are theirs, word for word."""
    answered: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in ledger.rows.values() if ledger.evidence.conversations else ():
        if row.status == SUCCEEDED:
            answered[row.tenant, row.session].append(row)
    for spoken in ledger.evidence.conversations:
        rows = sorted(answered[spoken.tenant, spoken.session], key=lambda row: row.seq or 0)
        for place, row in enumerate(rows):
            if row.kind == COMPENSATION:
                # It is part of the history: what is redriven behind it is another conversation.
                break
            for says in _faults(ledger, spoken, place, row.turn_id):
                yield Violation("I21", f"{says} (line {place + 1} of {spoken.name})", row.turn_id, spoken.session)


def _faults(ledger: Ledger, spoken: Conversation, place: int, turn_id: str) -> Iterator[str]:
    remarks = [entry.content for entry in ledger.said.get(turn_id, ()) if entry.role == "user"]
    replies = [entry.content for entry in ledger.said.get(turn_id, ()) if _is_reply(entry)]
    if place >= len(spoken.remarks):
        yield f"answers {remarks}, and the transcript is over"
        return
    if [remark.get("text") for remark in remarks if isinstance(remark, dict)] != [spoken.remarks[place]]:
        yield f"answers {remarks} in place of {spoken.remarks[place]!r}"
    if replies != [spoken.replies[place]]:
        yield f"was answered {replies}, and the transcript has {spoken.replies[place]!r}"


def _is_reply(entry: Any) -> bool:
    return bool(entry.role == "assistant" and entry.kind == "message")
