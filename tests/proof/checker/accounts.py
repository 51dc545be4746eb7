"""Accounts: nothing lost (I1), nothing settled twice (I2), no effect without its settlement or twice (I3).

A turn's inputs are accounted for one by one: each comes from one request, which was told of this turn, and none is there twice.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import FAILED, OPEN, PENDING, SUCCEEDED, TERMINAL

CHOSEN = "turn:"
"""How the key of a submit begins whose client chose the turn's id."""


def no_loss(ledger: Ledger) -> Iterator[Violation]:
    """I1: what was accepted has a row, which has ended at rest; what was refused has none; nothing else has one."""
    seen: set[str] = set()
    for row in ledger.evidence.turns:
        if row.turn_id in seen:
            yield Violation("I1", "has two rows at rest", row.turn_id, row.session)
        seen.add(row.turn_id)
    for turn_id, changes in ledger.changes.items():
        if turn_id not in seen:
            yield Violation("I1", "was recorded and its row is gone", turn_id, changes[0].session)
    if ledger.submits:
        yield from _asked_for(ledger)


def _asked_for(ledger: Ledger) -> Iterator[Violation]:
    named: set[str] = set()
    unknown: defaultdict[str, list[Any]] = defaultdict(list)
    for calls in _intents(ledger.submits):
        accepted = {call.turn_id: call for call in calls if call.outcome == "ok" and call.turn_id is not None}
        for turn_id, call in accepted.items():
            yield from _accepted(ledger.rows.get(turn_id), turn_id, call)
        named.update(accepted)
        chosen = _chosen(calls[0])
        open_ends = [call for call in calls if call.outcome == "unknown"]
        if accepted:
            continue
        if chosen is not None and (open_ends or chosen not in ledger.rows):
            named.add(chosen)
        elif open_ends:
            unknown[calls[0].session].append(open_ends[0].content)
    yield from _inputs(ledger)
    refused = {(call.session, _words(call.content)) for call in ledger.submits if call.outcome == "fail"}
    for turn_id, row in ledger.rows.items():
        # A turn that another has started is that one's to account for: see `families`.
        if turn_id in named or row.parent is not None:
            continue
        inputs = [entry.content for entry in ledger.said.get(turn_id, ()) if entry.role == "user"]
        candidates = unknown.get(row.session, [])
        # Each submit without an answer may have made one row. A row whose input is not in evidence fits any of them.
        fitting = next((at for at, content in enumerate(candidates) if not inputs or content == inputs[0]), None)
        if fitting is not None:
            del candidates[fitting]
        elif inputs and (row.session, _words(inputs[0])) in refused:
            yield Violation("I1", "has a row although its submit was refused", turn_id, row.session)
        else:
            yield Violation("I1", "has a row that no submit accounts for", turn_id, row.session)


def _inputs(ledger: Ledger) -> Iterator[Violation]:
    """Each accepted request's input is in its turn, as often as it was sent, and no other input is there.

    A request without an answer may have been merged into any turn of its session, or not.
    """
    due: defaultdict[str, Counter[str]] = defaultdict(Counter)
    perhaps: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for calls in _intents(ledger.submits):
        accepted = next((call for call in calls if call.outcome == "ok" and call.turn_id is not None), None)
        if accepted is not None and accepted.turn_id is not None:
            due[accepted.turn_id][_words(accepted.content)] += 1
        elif any(call.outcome == "unknown" for call in calls):
            perhaps[calls[0].session][_words(calls[0].content)] += 1
    for turn_id, row in ledger.rows.items():
        inputs = Counter(_words(said.content) for said in ledger.said.get(turn_id, ()) if said.role == "user")
        if not inputs:
            continue
        given = {run.inputs for run in ledger.runs_of.get(turn_id, ()) if run.inputs is not None}
        if given - {inputs.total()}:
            says = f"has {inputs.total()} inputs, of which its handler was given {sorted(given)}"
            yield Violation("I1", says, turn_id, row.session)
        asked = due.get(turn_id)
        if asked is None:
            # Judged as a row that needs a submit.
            continue
        for content in (asked - inputs).elements():
            yield Violation("I1", f"was told of the input {content} and does not have it", turn_id, row.session)
        for content in (inputs - asked).elements():
            if perhaps[row.session][content]:
                perhaps[row.session][content] -= 1
            else:
                yield Violation("I1", f"has the input {content} that no client was told of", turn_id, row.session)


def _words(content: Any) -> str:
    # The database keeps the members of an object in an order of its own.
    return json.dumps(content, sort_keys=True)


def _accepted(row: Row | None, turn_id: str, call: Call) -> Iterator[Violation]:
    if row is None:
        yield Violation("I1", f"was accepted ({call.client} was told so) and has no row", turn_id, call.session)
    elif call.session and row.session != call.session:
        yield Violation(
            "I1", f"was accepted for session {call.session} and stands in {row.session}", turn_id, row.session
        )
    elif row.status in OPEN:
        yield Violation("I1", f"was accepted and is still {row.status} at rest", turn_id, row.session)


def _intents(submits: list[Call]) -> Iterator[list[Call]]:
    """Calls that mean one turn: repeats by the same key; each call without a key by itself."""
    by_key: dict[tuple[str, str], list[Call]] = {}
    for call in submits:
        if call.key is None:
            yield [call]
        else:
            by_key.setdefault((call.tenant, call.key), []).append(call)
    yield from by_key.values()


def _chosen(call: Call) -> str | None:
    return call.key.removeprefix(CHOSEN) if call.key is not None and call.key.startswith(CHOSEN) else None


def one_settlement(ledger: Ledger) -> Iterator[Violation]:
    """I2: a generation ends once, and what has ended stays as it is until a redrive begins the next generation."""
    for turn_id, row in ledger.rows.items():
        if turn_id not in ledger.changes:
            yield Violation("I2", "has a row of whose birth there is no record", turn_id, row.session)
    for turn_id, changes in ledger.changes.items():
        session = changes[0].session
        ended: set[int] = set()
        previous: Change | None = None
        for change in changes:
            if change.before in TERMINAL and not _is_redrive(change, previous):
                says = f"{change.before} of generation {change.generation} was changed to {change.after}"
                yield Violation("I2", says, turn_id, session)
            if change.after in TERMINAL and change.before not in TERMINAL:
                if change.generation in ended:
                    says = f"generation {change.generation} ended a second time, as {change.after}"
                    yield Violation("I2", says, turn_id, session)
                ended.add(change.generation)
            previous = change
        last, row_at_rest = changes[-1], ledger.rows.get(turn_id)
        if row_at_rest is not None and _state(row_at_rest) != (last.after, last.generation, last.fence):
            says = f"the row is {_state(row_at_rest)}, its last change {(last.after, last.generation, last.fence)}"
            yield Violation("I2", f"{says} (status, generation, fence)", turn_id, session)


def _is_redrive(change: Change, previous: Change | None) -> bool:
    generation = previous.generation if previous is not None else change.generation - 1
    return (change.before, change.after) == (FAILED, PENDING) and change.generation == generation + 1


def _state(row: Row) -> tuple[str, int, int]:
    return (row.status, row.generation, row.fence)


def one_effect(ledger: Ledger) -> Iterator[Violation]:
    """I3: SUCCEEDED has exactly one reply, of the claim that settled it; anything else has none."""
    for turn_id in ledger.said.keys() - ledger.rows.keys():
        yield Violation("I3", "has said something and has no row", turn_id)
    for turn_id, row in ledger.rows.items():
        replies = [
            entry.content
            for entry in ledger.said.get(turn_id, ())
            if entry.role == "assistant" and entry.kind == "message"
        ]
        wins = [attempt.fence for attempt in ledger.attempts.get(turn_id, ()) if attempt.outcome == "succeeded"]
        due = int(row.status == SUCCEEDED)
        if len(replies) != due:
            says = f"is {row.status} and has {len(replies)} replies in the history"
            yield Violation("I3", says, turn_id, row.session)
        if len(wins) != due:
            says = f"is {row.status} and has {len(wins)} attempts that succeeded"
            yield Violation("I3", says, turn_id, row.session)
        if due and replies and wins:
            yield from _reply_of_the_winner(ledger, row, replies[0], wins[0])


def _reply_of_the_winner(ledger: Ledger, row: Row, reply: Any, recorded: int) -> Iterator[Violation]:
    turn_id, session = row.turn_id, row.session
    settled = next((c.fence for c in reversed(ledger.changes.get(turn_id, ())) if c.after == SUCCEEDED), row.fence)
    if recorded != settled:
        says = f"was settled under fence {settled}, and its attempt record says fence {recorded}"
        yield Violation("I3", says, turn_id, session)
    if isinstance(reply, dict):
        if reply.get("turn", turn_id) != turn_id:
            yield Violation("I3", f"has the reply of turn {reply['turn']}", turn_id, session)
        elif reply.get("fence", settled) != settled:
            says = f"was settled under fence {settled} with the reply that fence {reply['fence']} had made"
            yield Violation("I3", says, turn_id, session)
    if ledger.evidence.runs and (turn_id, settled) not in ledger.began:
        yield Violation("I3", f"SUCCEEDED under fence {settled}, whose handler never began", turn_id, session)
