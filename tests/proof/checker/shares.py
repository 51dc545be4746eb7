"""Shares: of one worker process, no tenant ever has more slots than its cap (I22), and all together no more than there are (I23).
Of all workers together, no tenant has more than the places of its limit (I24).

The first two by what the handlers of a process wrote down: how many of them were at work at once. The third by the claims and
their settlements. A process, a process and a tenant, or a tenant is convicted once.
"""

from collections import Counter, defaultdict
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


FREES_PLACES = ("redis", "lock", "postgres", "commit", "frozen", "clock", "cut-off", "block")
"""Parts of the names of faults under which a place may be lost while its turn goes on: without Redis, or without a heartbeat."""


@rule("I24")
def tenants_keep_their_limit(ledger: Ledger) -> Findings:
    """Claims under such a fault do not count, and neither do lost ones: nobody knows when their worker died."""
    most = ledger.terms.places
    if most is None:
        return
    faults = [fault for fault in ledger.evidence.faults if any(part in fault.kind for part in FREES_PLACES)]
    after = 3 * ledger.terms.lease_seconds
    changes: list[tuple[float, int, str, str]] = []
    for claim, end in ledger.settlements.items():
        begin = ledger.claims.get(claim)
        if begin is not None and not any(fault.at <= begin.at <= fault.until + after for fault in faults):
            changes += [(begin.at, 1, begin.tenant, begin.turn_id), (end.at, -1, end.tenant, end.turn_id)]
    running: Counter[str] = Counter()
    convicted: set[str] = set()
    for _, change, tenant, turn_id in sorted(changes):
        running[tenant] += change
        if running[tenant] > most and tenant not in convicted:
            convicted.add(tenant)
            yield turn_id, f"ran as number {running[tenant]} of tenant {tenant} on all workers, where {most} may"


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
