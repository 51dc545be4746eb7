"""Durable memory (I19): items are written under a valid claim, and a run reads the newest version, whatever happens to Redis.

Only the session's claim writes. So a run sees what was there when it was claimed, with its own writes since; one that has
been overtaken may also see what came later, which it can't know and must not write over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.proof.checker.ledger import Ledger, by_session, grouped
from tests.proof.checker.memory_evidence import MemoryAct, MemoryChange
from tests.proof.checker.rule import Findings, Session, rule
from tests.proof.checker.vocabulary import DURABLE_KINDS

Place = tuple[str, str]
"""An item's kind and key."""
State = dict[Place, MemoryChange]
"""A session's durable items at some moment."""


@dataclass(slots=True)
class _Book:
    """What was written in a session, in order."""

    changes: Sequence[MemoryChange] = ()

    def states(self, claimed: int, act: MemoryAct, own_until: float) -> Iterator[State]:
        """Those that a call may have met: from its claim on, with what its run had written by `own_until`, to its end."""
        least = 0
        for place, change in enumerate(self.changes, 1):
            if change.n < claimed or (change.fence == act.fence and change.at <= own_until):
                least = place
        state: State = {}
        if not least:
            yield state
        for place, change in enumerate(self.changes, 1):
            if place > least and change.at > act.until:
                return
            state = {name: item for name, item in state.items() if name != (change.kind, change.key)}
            if not change.gone:
                state[change.kind, change.key] = change
            if place >= least:
                yield state

    def before(self, change: MemoryChange) -> int:
        """The version that a change has replaced; 0 where there was nothing."""
        version = 0
        for other in self.changes:
            if other.version == change.version:
                return version
            if (other.kind, other.key) == (change.kind, change.key):
                version = 0 if other.gone else other.version
        return version


def _books(ledger: Ledger) -> dict[tuple[str, str], _Book]:
    """By tenant and session."""
    changes = grouped(ledger.evidence.memory_changes, by_session)
    return {session: _Book(written) for session, written in changes.items()}


@rule("I19")
def durable_items_are_written_under_claims(ledger: Ledger) -> Findings:
    givers = {fence: turn_id for turn_id, fence in ledger.claims}
    for change in ledger.evidence.memory_changes:
        turn_id = givers.get(change.fence)
        for claim in _fault_of_write(ledger, turn_id, change):
            yield turn_id or Session(change.session), f"{_name(change.kind, change.key)} {claim}"


def _fault_of_write(ledger: Ledger, turn_id: str | None, change: MemoryChange) -> Iterator[str]:
    claim = (turn_id or "", change.fence)
    given, end = ledger.claims.get(claim), ledger.end_of(claim)
    if given is None:
        yield f"was written under fence {change.fence}, which no claim was given"
        return
    if by_session(given) != by_session(change):
        yield f"was written under fence {change.fence}, which was given in session {given.session}"
    if not given.n < change.n or (end is not None and change.n > end.n):
        yield f"was written under fence {change.fence} when that claim did not stand"


@rule("I19")
def durable_versions_rise(ledger: Ledger) -> Findings:
    for book in _books(ledger).values():
        newest = 0
        places: dict[int, Place] = {}
        for change in book.changes:
            place = (change.kind, change.key)
            if change.version < newest and places.get(change.version) != place:
                says = f"{_name(*place)} got version {change.version} after version {newest} of its session"
                yield Session(change.session), says
            places[change.version] = place
            newest = max(newest, change.version)


@rule("I19")
def calls_meet_durable_items(ledger: Ledger) -> Findings:
    books = _books(ledger)
    for act in ledger.evidence.memory_acts:
        given = ledger.claims.get((act.turn_id, act.fence))
        # A run without a claim is convicted for that.
        if given is not None:
            for claim in _fault_of_act(ledger, books.get(by_session(act), _Book()), given.n, act):
                yield act.turn_id, f"under fence {act.fence} {claim}"


def _fault_of_act(ledger: Ledger, book: _Book, claimed: int, act: MemoryAct) -> Iterator[str]:
    if act.outcome == "superseded":
        end = ledger.end_of((act.turn_id, act.fence))
        if end is None or end.at > act.until:
            yield f"got the answer that its turn is another's, and its claim stood ({_describe(act)})"
        return
    if act.outcome == "unknown" or (act.kind is not None and act.kind not in DURABLE_KINDS):
        return
    met = list(book.states(claimed, act, act.at))
    match act.op:
        case "get" | "find":
            yield from _fault_of_read(act, met)
        case "set":
            yield from _fault_of_set(book, act, met)
        case "delete":
            yield from _fault_of_delete(book, act, met)
        case "clear":
            after = list(book.states(claimed, act, act.until))
            if all(any(_bears(item, act.label or "") for item in state.values()) for state in after):
                yield f"cleared {act.label}, and something with it is left"


def _fault_of_read(act: MemoryAct, met: Sequence[State]) -> Iterator[str]:
    if act.op == "find":
        kept = [{key: item.version for (kind, key), item in state.items() if kind == act.kind} for state in met]
        if act.found not in kept:
            yield f"found of kind {act.kind} the versions {_short(act.found)}, and there were {_short(kept)}"
        return
    versions = [_version(state, act) for state in met]
    if (act.version or 0) not in versions:
        yield f"read {_describe(act)} at version {act.version or 0}, and it had {_short(versions)}"
    elif act.version and not any((item := state.get(_place(act))) and item.value == act.value for state in met):
        yield f"read {_describe(act)} of version {act.version} as {_short(act.value)}, which was not written"


def _fault_of_set(book: _Book, act: MemoryAct, met: Sequence[State]) -> Iterator[str]:
    versions = [_version(state, act) for state in met]
    match act.outcome:
        case "ok":
            made = [one for one in book.changes if one.version == act.version and (one.kind, one.key) == _place(act)]
            written = next((one for one in made if one.fence == act.fence and one.value == act.value), None)
            if written is None:
                yield f"got the answer that {_describe(act)} was kept as version {act.version}, and it never was"
            elif act.expected is not None and (replaced := book.before(written)) != act.expected:
                yield f"replaced version {replaced} of {_describe(act)}, and expected {act.expected}"
        case "conflict":
            if all(version == act.expected for version in versions) or act.expected is None:
                yield f"got the answer that {_describe(act)} is not as expected, {act.expected}, and it was"
        case other:
            yield f"got the answer {other} for {_describe(act)}, which is durable"


def _fault_of_delete(book: _Book, act: MemoryAct, met: Sequence[State]) -> Iterator[str]:
    if act.outcome == "ok":
        deletions = [one for one in book.changes if one.gone and (one.kind, one.key) == _place(act)]
        if not any(one.fence == act.fence and act.at <= one.at <= act.until for one in deletions):
            yield f"got the answer that {_describe(act)} was deleted, and it was not"
    elif all(_version(state, act) for state in met):
        yield f"got the answer that there is no {_describe(act)}, and there was"


@rule("I19")
def durable_items_are_there_at_rest(ledger: Ledger) -> Findings:
    items = {(*by_session(item), item.kind, item.key): item for item in ledger.evidence.memory_items}
    for session, book in _books(ledger).items():
        for place, change in {(change.kind, change.key): change for change in book.changes}.items():
            item, subject, name = items.get((*session, *place)), Session(session[1]), _name(*place)
            if item is None:
                # What has been deleted is dropped some time later.
                if not change.gone:
                    yield subject, f"{name} was kept as version {change.version}, and is gone"
                continue
            if (item.version, item.gone, item.value) != (change.version, change.gone, change.value):
                yield subject, f"{name} was last written as version {change.version}, and is version {item.version}"


def _bears(item: MemoryChange, label: str) -> bool:
    what, _, name = label.partition(":")
    return name in item.tags if what == "tag" else name == item.context


def _place(act: MemoryAct) -> Place:
    return (act.kind or "", act.key or "")


def _version(state: State, act: MemoryAct) -> int:
    item = state.get(_place(act))
    return 0 if item is None else item.version


def _describe(act: MemoryAct) -> str:
    return _name(act.kind or "all", act.key or act.label or "items")


def _name(kind: str, key: str) -> str:
    return f"{kind} {key!r}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 160 else f"{text[:80]} ... {text[-80:]}"
