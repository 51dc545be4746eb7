"""Halting queues (I5): a FAILED turn halts its session in the same commit, and nothing of it is begun until it is let go on."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import Ledger, is_claim
from tests.proof.checker.tables import Change, HaltChange
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import FAILED


def halts_kept(ledger: Ledger) -> Iterator[Violation]:
    """I5, of a halting queue. Both kinds of record draw their numbers from one sequence, so one replay tells."""
    if not ledger.terms.halts:
        return
    halts: defaultdict[tuple[str, str], list[HaltChange]] = defaultdict(list)
    for halt in ledger.evidence.halts:
        halts[halt.tenant, halt.session].append(halt)
    for session, changes in ledger.sessions.items():
        yield from _replay(changes, halts[session])


def _replay(changes: Sequence[Change], halts: Sequence[HaltChange]) -> Iterator[Violation]:
    # What one commit has done, it has done at once: in which order it drew its numbers means nothing.
    halted_in = {halt.txid: halt.after for halt in halts if halt.after is not None}
    halted_by: str | None = None
    for record in sorted([*changes, *halts], key=lambda record: record.n):
        if isinstance(record, HaltChange):
            halted_by = record.after
            continue
        if record.after == FAILED and record.before != FAILED and halted_in.get(record.txid) != record.turn_id:
            yield Violation("I5", "is FAILED and did not halt its session", record.turn_id, record.session)
        halting = halted_by or halted_in.get(record.txid)
        if is_claim(record) and halting is not None:
            says = f"was claimed under fence {record.fence} while {halting} halted its session"
            yield Violation("I5", says, record.turn_id, record.session)
