"""Erasures (I25): what was erased is gone, and nothing else is.

An erased session is judged by these rules alone: the other rules need what was erased. The call of an erasure that got no answer
may have been carried out or not, and later: it excuses what is missing, and promises nothing.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tests.proof.checker.evidence import Call, Evidence
from tests.proof.checker.ledger import Ledger, by_session, by_turn, grouped
from tests.proof.checker.logs import LOOP_STUCK
from tests.proof.checker.rule import Findings, Session, rule

LATE_SECONDS = 60.0
"""How long after its call an erasure without an answer may still begin."""

Place = tuple[str, str]
"""Tenant and session."""

_OWN_SESSIONS = ("child:", "compensation:")
"""How the sessions begin that are named after their only turn, and are erased with the turn that it came from."""
_NAMED_IN_REDIS = re.compile(r"\{([^/}]+)/([^}]+)\}")


def _erasures(evidence: Evidence) -> dict[Place, list[Call]]:
    calls = (call for call in evidence.history if call.op == "erase" and call.outcome in ("ok", "unknown"))
    return dict(grouped(calls, by_session))


@rule("I25")
def what_was_erased_is_gone(ledger: Ledger) -> Findings:
    """After an answered erasure at rest: no turn of the session that was accepted before, and no row of such a turn."""
    for (tenant, session), calls in _erasures(ledger.evidence).items():
        answered = [call.at for call in calls if call.outcome == "ok"]
        if not answered:
            continue
        before = {
            call.turn_id
            for call in ledger.submits
            if (call.tenant, call.session) == (tenant, session) and call.outcome == "ok" and call.until <= max(answered)
        }
        for turn_id in sorted(before & ledger.rows.keys(), key=str):
            yield turn_id, "is in the table, and its session was erased after it was accepted"


@rule("I25")
def nothing_is_left_of_a_turn_that_is_gone(ledger: Ledger) -> Findings:
    evidence = ledger.evidence
    if not _erasures(evidence):
        return
    tables = (evidence.messages, evidence.attempts, evidence.values, evidence.webhooks)
    for turn_id in sorted({by_turn(one) for table in tables for one in table} - ledger.rows.keys()):
        yield turn_id, "has no row, and rows of other tables are left"
    for item in evidence.memory_items:
        place = (item.tenant, item.session)
        if place in _erasures(evidence) and not any(by_session(row) == place for row in evidence.turns):
            yield Session(item.session), f"was erased, and its memory has {item.kind} {item.key}"


@rule("I25")
def only_what_was_erased_is_gone(ledger: Ledger) -> Findings:
    erasures = _erasures(ledger.evidence)
    for call in ledger.submits:
        if call.outcome != "ok" or call.turn_id is None or call.turn_id in ledger.rows:
            continue
        calls = erasures.get((call.tenant, call.session), [])
        if not any(call.at <= one.until + (0 if one.outcome == "ok" else LATE_SECONDS) for one in calls):
            yield (
                call.turn_id,
                f"was accepted from {call.client} and is gone, and no erasure of its session explains that",
            )


def without_erased(evidence: Evidence) -> Evidence:
    """The evidence about all other sessions: for the rules that know nothing of erasures."""
    places = _closed(evidence, set(_erasures(evidence)))
    if not places:
        return evidence
    turns = {change.turn_id for change in evidence.audit if (change.tenant, change.session) in places}
    turns |= {call.turn_id for call in evidence.history if call.turn_id and (call.tenant, call.session) in places}
    sessions = {session for _, session in places}
    ran_there = {run.pid for run in evidence.runs if run.turn_id in turns}

    def stays(record: Any) -> bool:
        if getattr(record, "turn_id", None) in turns:
            return False
        if getattr(record, "event", None) == LOOP_STUCK and record.pid in ran_there:
            # Whether that turn was asked to block its loop is gone with it.
            return False
        tenant, session = getattr(record, "tenant", None), getattr(record, "session", None)
        if (tenant, session) in places or (tenant is None and session in sessions):
            return False
        return places.isdisjoint(_named_in(record)) and turns.isdisjoint(_turns_in(record))

    kept: dict[str, Any] = {
        one.name: [record for record in getattr(evidence, one.name) if stays(record)]
        for one in fields(Evidence)
        if one.name != "terms"
    }
    return replace(evidence, **kept)


def _closed(evidence: Evidence, places: set[Place]) -> set[Place]:
    """With the sessions of what the erased turns have started: a family is judged as a whole or not at all."""
    if not places:
        return places
    rows = {row.turn_id: row for row in evidence.turns}
    closed = places | {
        (change.tenant, change.session)
        for change in evidence.audit
        if change.turn_id not in rows and change.session.startswith(_OWN_SESSIONS)
    }
    while True:
        judged = {turn_id for turn_id, row in rows.items() if by_session(row) not in closed}
        orphans = {
            by_session(rows[turn_id])
            for turn_id in judged
            if rows[turn_id].parent is not None and rows[turn_id].parent not in judged
        }
        if not orphans:
            return closed
        closed |= orphans


def _named_in(record: Any) -> Iterator[Place]:
    """The sessions that a key or a command of Redis is about."""
    for word in (*getattr(record, "words", ()), getattr(record, "key", None) or ""):
        if isinstance(word, str):
            yield from _NAMED_IN_REDIS.findall(word)


def _turns_in(record: Any) -> Iterator[str]:
    """The turn that a message on a queue is about."""
    body = getattr(record, "body", None)
    if isinstance(body, str):
        try:
            found = json.loads(body)
        except ValueError:
            return
        if isinstance(found, dict) and isinstance(found.get("turn_id"), str):
            yield found["turn_id"]
