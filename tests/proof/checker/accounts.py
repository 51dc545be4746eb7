"""Accounts: nothing lost (I1), nothing settled twice (I2), no effect without its settlement or twice (I3).

A turn's inputs are accounted for one by one: each comes from one request, which was answered with this turn, and none is there
twice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger, canonical
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.vocabulary import FAILED, OPEN, PENDING, SUCCEEDED, TERMINAL

CHOSEN = "turn:"
"""How the key of a submit begins whose client chose the turn's id."""


@dataclass(frozen=True, slots=True)
class _Request:
    """Calls that mean one turn: repeats by the same key, or one call without a key."""

    first: Call
    accepted: dict[str, Call]
    """By the turn that they were answered with."""
    unanswered: bool

    @property
    def chosen(self) -> str | None:
        key = self.first.key or ""
        return key.removeprefix(CHOSEN) if key.startswith(CHOSEN) else None


def _requests(ledger: Ledger) -> Iterator[_Request]:
    by_key: defaultdict[Any, list[Call]] = defaultdict(list)
    for place, call in enumerate(ledger.submits):
        by_key[place if call.key is None else (call.tenant, call.key)].append(call)
    for calls in by_key.values():
        accepted = {call.turn_id: call for call in calls if call.outcome == "ok" and call.turn_id is not None}
        yield _Request(calls[0], accepted, any(call.outcome == "unknown" for call in calls))


@rule("I1")
def rows_are_kept(ledger: Ledger) -> Findings:
    for turn_id, many in Counter(row.turn_id for row in ledger.evidence.turns).items():
        if many > 1:
            yield turn_id, "has two rows at rest"
    for turn_id in ledger.changes:
        if turn_id not in ledger.rows:
            yield turn_id, "was recorded and its row is gone"


@rule("I1")
def accepted_turns_have_rows(ledger: Ledger) -> Findings:
    for request in _requests(ledger):
        for turn_id, call in request.accepted.items():
            row = ledger.rows.get(turn_id)
            if row is None:
                yield turn_id, f"was accepted from {call.client} and has no row"
            elif call.session and row.session != call.session:
                yield turn_id, f"was accepted for session {call.session} and stands in {row.session}"
            elif row.status in OPEN:
                yield turn_id, f"was accepted and is still {row.status} at rest"


@rule("I1")
def rows_have_submits(ledger: Ledger) -> Findings:
    """What was refused has no row; each submit without an answer may have made one; nothing else has one."""
    if not ledger.submits:
        return
    named: set[str] = set()
    unanswered: defaultdict[str, list[Any]] = defaultdict(list)
    for request in _requests(ledger):
        named.update(request.accepted)
        if request.accepted:
            continue
        if request.chosen is not None and (request.unanswered or request.chosen not in ledger.rows):
            named.add(request.chosen)
        elif request.unanswered:
            unanswered[request.first.session].append(request.first.content)
    refused = {(call.session, canonical(call.content)) for call in ledger.submits if call.outcome == "fail"}
    for turn_id, row in ledger.rows.items():
        # A turn that another has started is that one's to account for: see `families`.
        if turn_id in named or row.parent is not None:
            continue
        inputs, candidates = ledger.inputs_of(turn_id), unanswered[row.session]
        # A row whose input is not in evidence fits any of them.
        fitting = next((at for at, content in enumerate(candidates) if not inputs or content == inputs[0]), None)
        if fitting is not None:
            del candidates[fitting]
        elif inputs and (row.session, canonical(inputs[0])) in refused:
            yield turn_id, "has a row although its submit was refused"
        else:
            yield turn_id, "has a row that no submit accounts for"


@rule("I1")
def inputs_have_submits(ledger: Ledger) -> Findings:
    """Each accepted request's input is in its turn, as often as it was sent, and no other input is there.

    A request without an answer may have been merged into any turn of its session, or not.
    """
    due: defaultdict[str, Counter[str]] = defaultdict(Counter)
    perhaps: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for request in _requests(ledger):
        content = canonical(request.first.content)
        if request.accepted:
            due[next(iter(request.accepted))][content] += 1
        elif request.unanswered:
            perhaps[request.first.session][content] += 1
    for turn_id, row in ledger.rows.items():
        inputs = Counter(map(canonical, ledger.inputs_of(turn_id)))
        # A turn that no request names is judged as a row that needs a submit.
        if inputs and turn_id in due:
            for content in (due[turn_id] - inputs).elements():
                yield turn_id, f"was accepted with the input {content} and does not have it"
            for content in (inputs - due[turn_id]).elements():
                if perhaps[row.session][content]:
                    perhaps[row.session][content] -= 1
                else:
                    yield turn_id, f"has the input {content} that no client was answered for"


@rule("I1")
def handlers_get_all_inputs(ledger: Ledger) -> Findings:
    if not ledger.submits:
        return
    for turn_id in ledger.rows:
        inputs = len(ledger.inputs_of(turn_id))
        given = {run.inputs for run in ledger.runs[turn_id] if run.inputs is not None}
        if inputs and given - {inputs}:
            yield turn_id, f"has {inputs} inputs, of which its handler was given {sorted(given)}"


@rule("I2")
def one_settlement(ledger: Ledger) -> Findings:
    """A generation ends once, and what has ended stays as it is until a redrive begins the next generation."""
    ended: set[tuple[str, int]] = set()
    for previous, change in ledger.steps():
        turn_id, generation = change.turn_id, change.generation
        if change.before in TERMINAL and not _is_redrive(change, previous):
            yield turn_id, f"{change.before} of generation {generation} was changed to {change.after}"
        if change.after in TERMINAL and change.before not in TERMINAL:
            if (turn_id, generation) in ended:
                yield turn_id, f"generation {generation} ended a second time, as {change.after}"
            ended.add((turn_id, generation))


def _is_redrive(change: Change, previous: Change | None) -> bool:
    risen = previous is None or change.generation == previous.generation + 1
    return risen and (change.before, change.after) == (FAILED, PENDING)


@rule("I2")
def rows_are_as_last_changed(ledger: Ledger) -> Findings:
    for turn_id, row in ledger.rows.items():
        changes = ledger.changes[turn_id]
        if not changes:
            yield turn_id, "has a row of whose birth there is no record"
            continue
        last = (changes[-1].after, changes[-1].generation, changes[-1].fence)
        state = (row.status, row.generation, row.fence)
        if state != last:
            yield turn_id, f"the row is {state}, its last change {last} (status, generation, fence)"


@rule("I3")
def one_effect(ledger: Ledger) -> Findings:
    """SUCCEEDED has exactly one reply, of the claim that settled it; anything else has none."""
    for turn_id in ledger.said:
        if turn_id not in ledger.rows:
            yield turn_id, "has messages in the history and no row"
    for turn_id, row in ledger.rows.items():
        replies = ledger.replies_of(turn_id)
        wins = [attempt.fence for attempt in ledger.attempts[turn_id] if attempt.outcome == "succeeded"]
        due = int(row.status == SUCCEEDED)
        if len(replies) != due:
            yield turn_id, f"is {row.status} and has {len(replies)} replies in the history"
        if len(wins) != due:
            yield turn_id, f"is {row.status} and has {len(wins)} attempts that succeeded"
        if due and replies and wins:
            yield from about(turn_id, _reply_of_the_winner(ledger, row, replies[0], wins[0]))


def _reply_of_the_winner(ledger: Ledger, row: Row, reply: Any, recorded: int) -> Iterator[str]:
    turn_id = row.turn_id
    settled = next((c.fence for c in reversed(ledger.changes[turn_id]) if c.after == SUCCEEDED), row.fence)
    if recorded != settled:
        yield f"was settled under fence {settled}, and its attempt record says fence {recorded}"
    if isinstance(reply, dict):
        if reply.get("turn", turn_id) != turn_id:
            yield f"has the reply of turn {reply['turn']}"
        elif reply.get("fence", settled) != settled:
            yield f"was settled under fence {settled} with the reply that fence {reply['fence']} had made"
    if ledger.evidence.runs and (turn_id, settled) not in ledger.began:
        yield f"SUCCEEDED under fence {settled}, whose handler never began"
