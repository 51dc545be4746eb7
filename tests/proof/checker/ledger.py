"""The index over the evidence: built once, in one pass over each kind, and only read afterwards.

Everything is kept by turn, and the audit by session as well: both orders are the audit's own (`n`), which is the order in
which the changes of one session became visible. (A statement that claims, numbers or redrives a turn has seen what came before as
committed, or holds the session's row; so no change that one rule compares with another can have drawn its number early.)
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.proof.checker.evidence import Call, Evidence, HandlerRun, Terms
from tests.proof.checker.tables import AttemptRecord, Change, JoinChange, RecordedValue, Row, Said
from tests.proof.checker.vocabulary import COMPENSATION, RUNNING

Claim = tuple[str, int]
"""A turn and the fence under which it was claimed."""


def is_claim(change: Change) -> bool:
    """The turn became RUNNING under a new claim, taken over or not."""
    return change.after == RUNNING and (change.before != RUNNING or change.fence != change.fence_before)


def is_takeover(change: Change) -> bool:
    """A claim was ended from outside, because its lease was over: the turn runs anew, or was ended for good."""
    return change.before == RUNNING and change.fence != change.fence_before


def is_settlement(change: Change) -> bool:
    return change.before == RUNNING and change.after != RUNNING and change.fence == change.fence_before


def is_reply(said: Said) -> bool:
    """The turn's answer, and not a part of one that was broken off."""
    return said.role == "assistant" and said.kind == "message"


@dataclass(slots=True)
class Ledger:
    """The evidence, by turn and by session."""

    evidence: Evidence
    terms: Terms
    rows: dict[str, Row] = field(default_factory=dict)
    changes: defaultdict[str, list[Change]] = field(default_factory=lambda: defaultdict(list))
    sessions: defaultdict[tuple[str, str], list[Change]] = field(default_factory=lambda: defaultdict(list))
    """(tenant, session) -> the changes of all its turns."""
    said: defaultdict[str, list[Said]] = field(default_factory=lambda: defaultdict(list))
    attempts: defaultdict[str, list[AttemptRecord]] = field(default_factory=lambda: defaultdict(list))
    submits: list[Call] = field(default_factory=list)
    reads: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    cancels: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    began: dict[Claim, HandlerRun] = field(default_factory=dict)
    runs_of: defaultdict[str, list[HandlerRun]] = field(default_factory=lambda: defaultdict(list))
    """Those that began."""
    began_again: list[HandlerRun] = field(default_factory=list)
    """Second and further runs under one claim."""
    effects: defaultdict[str, list[HandlerRun]] = field(default_factory=lambda: defaultdict(list))
    """What handlers did once, and what they were given for it."""
    values: defaultdict[str, dict[str, RecordedValue]] = field(default_factory=lambda: defaultdict(dict))
    """By turn and key."""
    children: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    compensations: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """Both by the turn that has brought them about."""
    joins: defaultdict[str, list[JoinChange]] = field(default_factory=lambda: defaultdict(list))
    claims: dict[Claim, Change] = field(default_factory=dict)
    settlements: dict[Claim, Change] = field(default_factory=dict)
    takeovers: dict[Claim, Change] = field(default_factory=dict)
    """By the claim that was lost."""

    @classmethod
    def of(cls, evidence: Evidence) -> "Ledger":
        ledger = cls(evidence, evidence.terms)
        ledger.rows = {row.turn_id: row for row in evidence.turns}
        ledger._index_audit(evidence.audit)
        for entry in evidence.messages:
            ledger.said[entry.turn_id].append(entry)
        for attempt in evidence.attempts:
            ledger.attempts[attempt.turn_id].append(attempt)
        for run in evidence.runs:
            if run.what == "began":
                ledger._index_run(run)
            elif run.key is not None:
                ledger.effects[run.turn_id].append(run)
        for value in evidence.values:
            ledger.values[value.turn_id][value.key] = value
        for join in evidence.joins:
            ledger.joins[join.turn_id].append(join)
        for row in evidence.turns:
            if row.parent is not None:
                kin = ledger.compensations if row.kind == COMPENSATION else ledger.children
                kin[row.parent].append(row)
        for call in evidence.history:
            ledger._index_call(call)
        return ledger

    def inputs_of(self, turn_id: str) -> int:
        """How many things the user said in the turn; one, where that is not in evidence."""
        return sum(entry.role == "user" for entry in self.said.get(turn_id, ())) or 1

    def reply_of(self, turn_id: str) -> Any:
        return next((said.content for said in self.said.get(turn_id, ()) if is_reply(said)), None)

    def session_of(self, turn_id: str) -> str | None:
        """The turn's session, as far as its row or its changes tell."""
        if turn_id in self.rows:
            return self.rows[turn_id].session
        changes = self.changes.get(turn_id)
        return changes[0].session if changes else None

    def _index_audit(self, audit: list[Change]) -> None:
        by_turn, by_session = self.changes, self.sessions
        for change in audit:
            turn_id = change.turn_id
            by_turn[turn_id].append(change)
            by_session[change.tenant, change.session].append(change)
            if is_claim(change):
                self.claims[turn_id, change.fence] = change
            if change.before == RUNNING and change.fence_before is not None:
                if change.fence != change.fence_before:
                    self.takeovers[turn_id, change.fence_before] = change
                elif change.after != RUNNING:
                    self.settlements[turn_id, change.fence] = change

    def _index_run(self, run: HandlerRun) -> None:
        claim = (run.turn_id, run.fence)
        self.runs_of[run.turn_id].append(run)
        if claim in self.began:
            self.began_again.append(run)
        else:
            self.began[claim] = run

    def _index_call(self, call: Call) -> None:
        if call.op == "submit":
            self.submits.append(call)
        elif call.turn_id is not None and call.op == "read":
            self.reads[call.turn_id].append(call)
        elif call.turn_id is not None and call.op == "cancel":
            self.cancels[call.turn_id].append(call)
