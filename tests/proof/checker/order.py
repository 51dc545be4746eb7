"""Order in a session, its history and its halts (I5), and one turn at a time (I6)."""

import heapq
from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import (
    Claim,
    Ledger,
    by_session,
    canonical,
    grouped,
    is_claim,
    is_settlement,
    is_takeover,
)
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change, HaltChange
from tests.proof.checker.vocabulary import CANCELED, FAILED, OPEN, PENDING, RUNNING, SUCCEEDED

HISTORY_MESSAGES = 20
"""What a handler asks for: its inputs, and before them replies with what they answer, the newest first."""
SHOWN_AT_MOST = 9
"""Replies that a handler must have been shown, where the session has more: one fewer than fit with one input a turn."""


@rule("I5")
def order_in_sessions(ledger: Ledger) -> Findings:
    """A turn is claimed and settled only after all with a lower place."""
    for changes in ledger.sessions.values():
        open_seqs: dict[str, int] = {}
        lowest: list[tuple[int, str]] = []
        for change in changes:
            turn_id, seq = change.turn_id, change.seq
            if seq is None:
                continue
            if is_claim(change) or (is_settlement(change) and change.after not in (CANCELED, PENDING)):
                while lowest and open_seqs.get(lowest[0][1]) != lowest[0][0]:
                    heapq.heappop(lowest)
                if lowest and lowest[0][0] < seq:
                    verb = "claimed" if change.after == RUNNING else change.after
                    first, other = lowest[0]
                    yield turn_id, f"seq {seq} was {verb} while seq {first} ({other}) of its session was open"
            if change.after not in OPEN:
                open_seqs.pop(turn_id, None)
            elif open_seqs.get(turn_id) != seq:
                open_seqs[turn_id] = seq
                heapq.heappush(lowest, (seq, turn_id))


@rule("I5")
def histories_are_whole(ledger: Ledger) -> Findings:
    """A handler is shown exactly the turns that were answered before its claim, and what was said in them."""
    for changes in ledger.sessions.values() if ledger.began else ():
        answered: list[str] = []
        for change in changes:
            if is_claim(change):
                yield from about(change.turn_id, _misshown(ledger, (change.turn_id, change.fence), answered))
            elif change.after == SUCCEEDED and change.before == RUNNING:
                answered.append(change.turn_id)


def _misshown(ledger: Ledger, claim: Claim, answered: Sequence[str]) -> Iterator[str]:
    run = ledger.began.get(claim)
    if run is None:
        return
    if run.heard is not None:
        heard = list(run.heard)
        first = max(0, len(answered) - len(heard))
        least = min(SHOWN_AT_MOST, _fitting(ledger, run.turn_id, answered)) if first else 0
        if heard != list(answered[first:]) or len(heard) < least:
            yield f"was shown the replies {_short(heard)} where the session had {_short(answered)}"
    if run.shown is not None:
        # What was said in turns that ended otherwise, and what was broken off, is not part of it.
        said = [content for turn_id in answered for content in _said_in(ledger, turn_id, ("user", "assistant"))]
        own = _said_in(ledger, run.turn_id, ("user",))[: run.inputs]
        due = [*said, *own][-HISTORY_MESSAGES:]
        shown = [canonical(content) for content in run.shown]
        if shown != due:
            places = range(max(len(shown), len(due)))
            first = next(place for place in places if shown[place : place + 1] != due[place : place + 1])
            says = f"was shown {shown[first : first + 1]} as message {first + 1} of {len(shown)}"
            yield f"{says}, where {due[first : first + 1]} was due, of {len(due)}"


def _said_in(ledger: Ledger, turn_id: str, roles: Sequence[str]) -> list[str]:
    said = ledger.said[turn_id]
    return [canonical(entry.content) for entry in said if entry.kind == "message" and entry.role in roles]


def _fitting(ledger: Ledger, turn_id: str, answered: Sequence[str]) -> int:
    # Where a turn's inputs are not in evidence, there was one.
    left, shown = HISTORY_MESSAGES - (len(ledger.inputs_of(turn_id)) or 1), 0
    for other in reversed(answered):
        if left < 1:
            break
        shown, left = shown + 1, left - 1 - (len(ledger.inputs_of(other)) or 1)
    return shown


def _short(turn_ids: Sequence[str]) -> str:
    shown = ", ".join(turn_ids[-SHOWN_AT_MOST:]) or "none"
    return f"(... {shown})" if len(turn_ids) > SHOWN_AT_MOST else f"({shown})"


@rule("I5")
def halts_are_kept(ledger: Ledger) -> Findings:
    """On a halting queue, a FAILED turn halts its session in the same commit, and nothing of it is begun until it goes on."""
    halts = grouped(ledger.evidence.halts, by_session)
    for session, changes in ledger.sessions.items() if ledger.terms.halts else ():
        # What one commit has done, it has done at once: in which order it drew its numbers means nothing.
        halted_in = {halt.txid: halt.after for halt in halts[session] if halt.after is not None}
        halted_by: str | None = None
        records: list[Change | HaltChange] = [*changes, *halts[session]]
        for record in sorted(records, key=lambda record: record.n):
            if isinstance(record, HaltChange):
                halted_by = record.after
                continue
            if record.after == FAILED != record.before and halted_in.get(record.txid) != record.turn_id:
                yield record.turn_id, "is FAILED and did not halt its session"
            halting = halted_by or halted_in.get(record.txid)
            if is_claim(record) and halting is not None:
                yield record.turn_id, f"was claimed under fence {record.fence} while {halting} halted its session"


@rule("I6")
def claims_do_not_overlap(ledger: Ledger) -> Findings:
    """A session has one claim at a time, and a claim is taken over only after its lease.

    Handlers may overlap all the same: one whose claim was ended may not have noticed, or ignore it. That two run while both
    claims stand would take overlapping claims or a second run under one of them, which are what is looked for.
    """
    for changes in ledger.sessions.values():
        running: dict[str, int] = {}
        for change in changes:
            yield from about(change.turn_id, _overlaps(change, running))


def _overlaps(change: Change, running: dict[str, int]) -> Iterator[str]:
    if is_takeover(change) and change.lease_before is not None and change.lease_before > change.at:
        left = change.lease_before - change.at
        yield f"fence {change.fence_before} was taken over {left:.3f} s before its lease was over"
    if change.after != RUNNING:
        running.pop(change.turn_id, None)
    elif is_claim(change):
        for other, fence in running.items():
            if other != change.turn_id:
                yield f"was claimed (fence {change.fence}) while {other} of its session ran under fence {fence}"
        running[change.turn_id] = change.fence


@rule("I6")
def claims_run_once(ledger: Ledger) -> Findings:
    for run in ledger.began_again:
        yield run.turn_id, f"its handler was run twice under fence {run.fence}"
