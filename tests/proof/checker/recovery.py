"""How soon turns go on after their worker was killed, or told to stop. Figures, no violations.

A worker's name contains its pid between dashes, and the kernel gives no pid twice within a run: what ended under that pid is
the worker that held the claim.
"""

from collections import defaultdict

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import Change

KILLED = -9
STOPPED = ("worker-sigterm",)
"""The kind of a fault that tells a worker to stop once, and lets it."""


def after_kill(ledger: Ledger) -> list[float]:
    """Seconds from the end of a killed worker to the next claim of each turn that it held."""
    held = _held_by_pid(ledger)
    waits = []
    for life in ledger.evidence.lives:
        if life.role != "worker" or life.what != "ended" or life.code != KILLED:
            continue
        for claim, given in held[life.pid]:
            taken = ledger.takeovers.get(claim)
            if taken is not None and given.at <= life.at:
                waits.append(taken.at - life.at)
    return sorted(waits)


def after_stop(ledger: Ledger) -> list[float]:
    """Seconds from the end of a stopped worker's grace to the hand-back of each turn that it had not finished."""
    stops = {}
    for fault in ledger.evidence.faults:
        if fault.kind in STOPPED:
            stops[int(fault.target.rpartition(" ")[2])] = fault.at + ledger.terms.grace_seconds
    held = _held_by_pid(ledger)
    waits = []
    for pid, grace_over in stops.items():
        for claim, _ in held[pid]:
            back = ledger.settlements.get(claim)
            if back is not None and back.after == "PENDING" and back.at >= grace_over:
                waits.append(back.at - grace_over)
    return sorted(waits)


def _held_by_pid(ledger: Ledger) -> dict[int, list[tuple[tuple[str, int], Change]]]:
    held: dict[int, list[tuple[tuple[str, int], Change]]] = defaultdict(list)
    for claim, given in ledger.claims.items():
        parts = (given.worker or "").rsplit("-", 2)
        if len(parts) == 3 and parts[1].isdecimal():
            held[int(parts[1])].append((claim, given))
    return held
