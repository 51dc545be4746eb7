"""The index over the evidence: built once, and only read afterwards.

Everything is kept by turn, and the audit by session as well: both orders are the audit's own (`n`), which is the order in
which the changes of one session became visible. (A statement that claims, numbers or redrives a turn has seen what came before as
committed, or has locked the session's row; so no change that one rule compares with another can have drawn its number early.)
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

from tests.proof.checker.evidence import Evidence, Fault, HandlerRun
from tests.proof.checker.tables import Change, RecordedValue, Row, Said
from tests.proof.checker.vocabulary import COMPENSATION, RUNNING

Key = TypeVar("Key")
Record = TypeVar("Record")

Claim = tuple[str, int]
"""A turn and the fence under which it was claimed."""


class Groups(dict[Key, list[Record]]):
    """Records by a key. A key without records has an empty list, which is not added."""

    def __missing__(self, key: Key) -> list[Record]:
        return []


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> Groups[Key, Record]:
    """The records by their key, each list in their order."""
    groups: Groups[Key, Record] = Groups()
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def by_turn(record: Any) -> str:
    return str(record.turn_id)


def by_session(record: Any) -> tuple[str, str]:
    return record.tenant, record.session


def canonical(content: Any) -> str:
    """JSON for comparisons: the database keeps the members of an object in an order of its own."""
    return json.dumps(content, sort_keys=True)


def is_claim(change: Change) -> bool:
    """The turn became RUNNING under a new claim, taken over or not."""
    return change.after == RUNNING and (change.before != RUNNING or change.fence != change.fence_before)


def is_takeover(change: Change) -> bool:
    """A claim was ended from outside, because its lease was over: the turn runs again, or was ended for good."""
    return change.before == RUNNING and change.fence != change.fence_before


def is_settlement(change: Change) -> bool:
    return change.before == RUNNING and change.after != RUNNING and change.fence == change.fence_before


def is_reply(said: Said) -> bool:
    """The turn's answer, and not a part of one that was broken off."""
    return said.role == "assistant" and said.kind == "message"


class Ledger:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.terms = evidence.terms
        self.rows: dict[str, Row] = {row.turn_id: row for row in evidence.turns}
        self.changes = grouped(evidence.audit, by_turn)
        self.sessions = grouped(evidence.audit, by_session)
        """(tenant, session) -> the changes of all its turns."""
        self.said = grouped(sorted(evidence.messages, key=lambda said: said.ordinal), by_turn)
        self.attempts = grouped(evidence.attempts, by_turn)
        self.joins = grouped(evidence.joins, by_turn)
        calls = grouped(
            (call for call in evidence.history if call.op == "submit" or call.turn_id), lambda call: call.op
        )
        self.submits = calls["submit"]
        self.reads = grouped(calls["read"], by_turn)
        self.cancels = grouped(calls["cancel"], by_turn)
        self.values: dict[str, dict[str, RecordedValue]] = {}
        """By turn and key."""
        for value in evidence.values:
            self.values.setdefault(value.turn_id, {})[value.key] = value
        started = [row for row in evidence.turns if row.parent is not None]
        self.children = grouped((row for row in started if row.kind != COMPENSATION), lambda row: str(row.parent))
        self.compensations = grouped((row for row in started if row.kind == COMPENSATION), lambda row: str(row.parent))
        """Both by the turn that has brought them about."""
        self.runs = grouped((run for run in evidence.runs if run.what == "began"), by_turn)
        self.effects = grouped((run for run in evidence.runs if run.what != "began" and run.key is not None), by_turn)
        """What handlers did once, and what they were given for it."""
        self.began: dict[Claim, HandlerRun] = {}
        self.began_again: list[HandlerRun] = []
        """Second and further runs under one claim."""
        for run in chain.from_iterable(self.runs.values()):
            if (run.turn_id, run.fence) in self.began:
                self.began_again.append(run)
            else:
                self.began[run.turn_id, run.fence] = run
        self.claims: dict[Claim, Change] = {}
        self.settlements: dict[Claim, Change] = {}
        self.takeovers: dict[Claim, Change] = {}
        """By the claim that was lost."""
        for change in evidence.audit:
            if is_claim(change):
                self.claims[change.turn_id, change.fence] = change
            if is_settlement(change):
                self.settlements[change.turn_id, change.fence] = change
            elif is_takeover(change) and change.fence_before is not None:
                self.takeovers[change.turn_id, change.fence_before] = change

    def steps(self) -> Iterator[tuple[Change | None, Change]]:
        """Each change of each turn, with the turn's change before it."""
        for changes in self.changes.values():
            yield from zip([None, *changes], changes, strict=False)

    def end_of(self, claim: Claim) -> Change | None:
        """The change that took the claim over or settled it; None while it stands."""
        return self.takeovers.get(claim) or self.settlements.get(claim)

    def inputs_of(self, turn_id: str) -> list[Any]:
        """What the user said in the turn, in order."""
        return [said.content for said in self.said[turn_id] if said.role == "user"]

    def order_of(self, turn_id: str) -> dict[str, Any]:
        """The turn's first input, which says what the handler is to do; empty if it is not an object."""
        inputs = self.inputs_of(turn_id)
        return inputs[0] if inputs and isinstance(inputs[0], dict) else {}

    def replies_of(self, turn_id: str) -> list[Any]:
        return [said.content for said in self.said[turn_id] if is_reply(said)]

    def reply_of(self, turn_id: str) -> Any:
        return next(iter(self.replies_of(turn_id)), None)

    def session_of(self, turn_id: str) -> str | None:
        """The turn's session, if its row or its changes say it."""
        known = [self.rows[turn_id]] if turn_id in self.rows else self.changes[turn_id]
        return known[0].session if known else None

    def faults_during(self, since: float, until: float, kinds: tuple[str, ...] = ("",)) -> list[Fault]:
        """Those whose kind begins with one of `kinds`."""
        faults = self.evidence.faults
        return [one for one in faults if one.at <= until and one.until >= since and one.kind.startswith(kinds)]
