"""Memory that is not durable (I19): an item may be gone at any moment, but what is there is its newest version.

Nothing is on record but what the handlers were answered. A write that was not answered, or answered with the news that Redis is
away, may have been done all the same, also later. Versions rise in the order in which Redis wrote them, over all of this.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.memory_evidence import MemoryAct
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.vocabulary import DURABLE_KINDS

Place = tuple[str, str, str, str]
"""Tenant, session, kind and key."""


@dataclass(slots=True)
class _Known:
    """What is known of an item."""

    kept: dict[int, MemoryAct] = field(default_factory=dict)
    """The writes that were acknowledged, by version."""
    deletions: list[MemoryAct] = field(default_factory=list)


@rule("I19")
def vanishing_items_are_the_newest(ledger: Ledger) -> Findings:
    acts = [act for act in ledger.evidence.memory_acts if act.kind is not None and act.kind not in DURABLE_KINDS]
    known: defaultdict[Place, _Known] = defaultdict(_Known)
    for act in acts:
        item = known[_place(act, act.key)]
        if (act.op, act.outcome) == ("set", "ok") and act.version is not None:
            if act.version in item.kept:
                says = f"made version {act.version} of {act.kind} {act.key!r}, which another write had made"
                yield act.turn_id, f"under fence {act.fence} {says}"
            item.kept[act.version] = act
        elif (act.op, act.outcome) == ("delete", "ok"):
            item.deletions.append(act)
    for act in acts:
        for key, version in _seen(act):
            for claim in _faults(ledger, known[_place(act, key)], act, version):
                yield act.turn_id, f"under fence {act.fence} {claim} ({act.op} of {act.kind} {key!r})"


def _seen(act: MemoryAct) -> Iterator[tuple[str, int]]:
    """The items and versions that a call has certainly met."""
    match act.op:
        case "get" if act.version is not None:
            yield act.key or "", act.version
        case "find":
            yield from (act.found or {}).items()
        case "set" if act.outcome == "ok" and act.expected:
            yield act.key or "", act.expected


def _faults(ledger: Ledger, item: _Known, act: MemoryAct, version: int) -> Iterator[str]:
    newer = [other for other, write in item.kept.items() if other > version and write.until <= act.at]
    if newer:
        yield f"met version {version} after version {max(newer)} had been acknowledged"
    written = item.kept.get(version)
    if written is not None and any(written.until <= one.at and one.until <= act.at for one in item.deletions):
        yield f"met version {version} after it had been deleted"
    if act.op != "get":
        return
    if written is not None and written.value != act.value:
        yield f"met version {version} as {act.value!r}, and it was written as {written.value!r}"
    elif written is None and not _was_run(ledger, act):
        yield f"met {act.value!r}, which no run of its session can have written"


def _was_run(ledger: Ledger, act: MemoryAct) -> bool:
    if not isinstance(act.value, dict):
        return False
    run = ledger.began.get((act.value.get("by", ""), act.value.get("fence", 0)))
    return run is not None and run.session == act.session


def _place(act: MemoryAct, key: str | None) -> Place:
    return act.tenant, act.session, act.kind or "", key or ""
