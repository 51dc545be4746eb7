"""Shares: of one worker process, no tenant ever has more slots than its cap (I22), and all together no more than there are (I23).

Both by what the handlers of a process wrote down: how many of them were at work at once. A process, or a process and a tenant, is
convicted once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.proof.checker.evidence import HandlerRun
from tests.proof.checker.ledger import Claim, Ledger
from tests.proof.checker.rule import Findings, rule


@rule("I22")
def tenants_keep_their_cap(ledger: Ledger) -> Findings:
    most = ledger.terms.tenant_slots
    for run, many, tenant in _more_than(most, ledger, lambda tenant: tenant) if most is not None else ():
        yield run.turn_id, f"ran as number {many} of tenant {tenant} in process {run.pid}, where {most} may"


@rule("I23")
def workers_keep_their_slots(ledger: Ledger) -> Findings:
    most = ledger.terms.slots
    for run, many, _ in _more_than(most, ledger, lambda _: ""):
        yield run.turn_id, f"ran as number {many} in process {run.pid}, which has {most} slots"


def _more_than(most: int, ledger: Ledger, share_of: Callable[[str], str]) -> Iterator[tuple[HandlerRun, int, str]]:
    at_work: defaultdict[tuple[int, str], set[Claim]] = defaultdict(set)
    convicted: set[tuple[int, str]] = set()
    for run in sorted(ledger.evidence.runs, key=lambda run: run.at):
        row = ledger.rows.get(run.turn_id)
        if row is None:
            continue
        share, claim = (run.pid, share_of(row.tenant)), (run.turn_id, run.fence)
        if run.what == "began":
            at_work[share].add(claim)
        elif run.what in ("ended", "cancelled"):
            at_work[share].discard(claim)
        if len(at_work[share]) > most and share not in convicted:
            convicted.add(share)
            yield run, len(at_work[share]), row.tenant
