"""Conversations (I21): a session in which a transcript is spoken line by line comes out as the transcript, as far as it got.

The handler answers from its history and its memory, so that every reply shows whether both were right: a remark that was
lost, doubled, moved or forgotten shows in the next one.
"""

from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger, by_session, grouped
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import COMPENSATION, SUCCEEDED


@rule("I21")
def conversations(ledger: Ledger) -> Findings:
    """The remarks that were answered are the first ones, in order, and the replies are theirs."""
    answered = grouped((row for row in ledger.rows.values() if row.status == SUCCEEDED), by_session)
    for spoken in ledger.evidence.conversations:
        rows = sorted(answered[by_session(spoken)], key=lambda row: row.seq or 0)
        for place, row in enumerate(rows):
            if row.kind == COMPENSATION:
                # It is part of the history: what is redriven behind it is another conversation.
                break
            for claim in _faults(ledger, spoken, place, row.turn_id):
                yield row.turn_id, f"{claim} (line {place + 1} of {spoken.name})"


def _faults(ledger: Ledger, spoken: Conversation, place: int, turn_id: str) -> Iterator[str]:
    remarks, replies = ledger.inputs_of(turn_id), ledger.replies_of(turn_id)
    if place >= len(spoken.remarks):
        yield f"answers {remarks}, and the transcript is over"
        return
    if [remark.get("text") for remark in remarks if isinstance(remark, dict)] != [spoken.remarks[place]]:
        yield f"answers {remarks} in place of {spoken.remarks[place]!r}"
    if replies != [spoken.replies[place]]:
        yield f"was answered {replies}, and the transcript has {spoken.replies[place]!r}"
