"""A tenant's share (I22): of one worker process, no tenant ever has more slots than its cap."""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker.ledger import Claim, Ledger
from tests.chaos.checker.violation import Violation


def tenant_share(ledger: Ledger) -> Iterator[Violation]:
    """I22, by what the handlers of a process wrote down: more at once than the cap. Said once of a process and a tenant."""
    most = ledger.terms.tenant_slots
    if most is None:
        return
    at_work: defaultdict[tuple[int, str], set[Claim]] = defaultdict(set)
    told: set[tuple[int, str]] = set()
    for run in sorted(ledger.evidence.runs, key=lambda run: run.at):
        row = ledger.rows.get(run.turn_id)
        if row is None:
            continue
        share, claim = (run.pid, row.tenant), (run.turn_id, run.fence)
        if run.what == "began":
            at_work[share].add(claim)
        elif run.what in ("ended", "cancelled"):
            at_work[share].discard(claim)
        if len(at_work[share]) > most and share not in told:
            told.add(share)
            says = f"ran as number {len(at_work[share])} of tenant {row.tenant} in process {run.pid}, where {most} may"
            yield Violation("I22", says, run.turn_id, run.session)
