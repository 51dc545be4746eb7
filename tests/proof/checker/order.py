"""Order in a session (I5) and one turn at a time (I6)."""

import heapq
import json
from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import Claim, Ledger, is_claim, is_settlement, is_takeover
from tests.proof.checker.tables import Change
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import CANCELED, OPEN, PENDING, RUNNING, SUCCEEDED

HISTORY_MESSAGES = 20
"""What a handler asks for: its inputs, and before them replies with what they answer, the newest first."""
SHOWN_AT_MOST = 9
"""Replies that a handler must have been shown, where the session has more: one fewer than fit with one input a turn."""


def order_in_sessions(ledger: Ledger) -> Iterator[Violation]:
    """I5: a turn is claimed and answered only after all with a lower place; its handler heard exactly those."""
    for changes in ledger.sessions.values():
        told: list[str] = []
        shown: dict[Claim, int] = {}
        yield from _in_order(changes, told, shown)
        if ledger.began:
            yield from _heard(ledger, told, shown)
            yield from _shown(ledger, told, shown)


def _in_order(changes: Sequence[Change], told: list[str], shown: dict[Claim, int]) -> Iterator[Violation]:
    """Replays a session. `told` gets its answered turns, `shown` how many of them there were at each claim."""
    open_seqs: dict[str, int] = {}
    lowest: list[tuple[int, str]] = []
    for change in changes:
        turn_id, seq = change.turn_id, change.seq
        if seq is not None:
            if is_claim(change) or (is_settlement(change) and change.after not in (CANCELED, PENDING)):
                while lowest and open_seqs.get(lowest[0][1]) != lowest[0][0]:
                    heapq.heappop(lowest)
                if lowest and lowest[0][0] < seq:
                    verb = "claimed" if change.after == RUNNING else change.after
                    says = f"seq {seq} was {verb} while seq {lowest[0][0]} ({lowest[0][1]}) of its session was open"
                    yield Violation("I5", says, turn_id, change.session)
            if change.after not in OPEN:
                open_seqs.pop(turn_id, None)
            elif open_seqs.get(turn_id) != seq:
                open_seqs[turn_id] = seq
                heapq.heappush(lowest, (seq, turn_id))
        if is_claim(change):
            shown[turn_id, change.fence] = len(told)
        elif change.after == SUCCEEDED and change.before == RUNNING:
            told.append(turn_id)


def _heard(ledger: Ledger, told: Sequence[str], shown: dict[Claim, int]) -> Iterator[Violation]:
    for claim, many in shown.items():
        run = ledger.began.get(claim)
        if run is None or run.heard is None:
            continue
        heard = list(run.heard)
        first = max(0, many - len(heard))
        least = min(SHOWN_AT_MOST, _fitting(ledger, run.turn_id, told[:many])) if first else 0
        if heard != list(told[first:many]) or len(heard) < least:
            says = f"was shown the replies {_short(heard)} where the session had {_short(told[:many])}"
            yield Violation("I5", says, run.turn_id, run.session)


def _shown(ledger: Ledger, told: Sequence[str], shown: dict[Claim, int]) -> Iterator[Violation]:
    """Word for word: what the user said in the answered turns and what they were answered, then the turn's own inputs.

    What was said in turns that ended otherwise, and what was broken off, is no part of it.
    """
    for claim, many in shown.items():
        run = ledger.began.get(claim)
        if run is None or run.shown is None:
            continue
        said = [words for turn_id in told[:many] for words in _said_in(ledger, turn_id, ("user", "assistant"))]
        own = _said_in(ledger, run.turn_id, ("user",))[: run.inputs]
        least = [*said, *own][-HISTORY_MESSAGES:]
        words = [json.dumps(content, sort_keys=True) for content in run.shown]
        if words != least:
            places = range(max(len(words), len(least)))
            first = next(place for place in places if words[place : place + 1] != least[place : place + 1])
            says = f"was shown {words[first : first + 1]} as message {first + 1} of {len(words)}"
            due = f"where {least[first : first + 1]} was due, of {len(least)}"
            yield Violation("I5", f"{says}, {due}", run.turn_id, run.session)


def _said_in(ledger: Ledger, turn_id: str, roles: Sequence[str]) -> list[str]:
    entries = sorted(ledger.said.get(turn_id, ()), key=lambda entry: entry.ordinal)
    # The database keeps the members of an object in an order of its own.
    return [
        json.dumps(entry.content, sort_keys=True)
        for entry in entries
        if entry.kind == "message" and entry.role in roles
    ]


def _fitting(ledger: Ledger, turn_id: str, told: Sequence[str]) -> int:
    left, shown = HISTORY_MESSAGES - ledger.inputs_of(turn_id), 0
    for other in reversed(told):
        if left < 1:
            break
        shown, left = shown + 1, left - 1 - ledger.inputs_of(other)
    return shown


def _short(turn_ids: Sequence[str]) -> str:
    shown = ", ".join(turn_ids[-SHOWN_AT_MOST:]) or "none"
    return f"(... {shown})" if len(turn_ids) > SHOWN_AT_MOST else f"({shown})"


def exclusion(ledger: Ledger) -> Iterator[Violation]:
    """I6: a session has one claim at a time, a claim is taken over only after its lease, and runs its handler once.

    Handlers may overlap all the same: one whose claim was ended may not have noticed, or be deaf. That two run while both
    claims stand would take overlapping claims or a second run under one of them, which are what is looked for.
    """
    for changes in ledger.sessions.values():
        running: dict[str, int] = {}
        for change in changes:
            for says in _overlaps(change, running):
                yield Violation("I6", says, change.turn_id, change.session)
    for run in ledger.began_again:
        yield Violation("I6", f"its handler was run twice under fence {run.fence}", run.turn_id, run.session)


def _overlaps(change: Change, running: dict[str, int]) -> Iterator[str]:
    turn_id = change.turn_id
    if is_takeover(change) and change.lease_before is not None and change.lease_before > change.at:
        left = change.lease_before - change.at
        yield f"fence {change.fence_before} was taken over {left:.3f} s before its lease was over"
    if change.after != RUNNING:
        running.pop(turn_id, None)
        return
    if is_claim(change):
        for other, fence in running.items():
            if other != turn_id:
                yield f"was claimed (fence {change.fence}) while {other} of its session ran under fence {fence}"
        running[turn_id] = change.fence
