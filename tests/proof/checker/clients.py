"""Promises to clients: reads go forward (I11), a key names one turn (I12), an acknowledged cancel holds (I13)."""

from collections.abc import Iterator, Sequence

from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger, is_claim
from tests.proof.checker.tables import Change
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import CANCELED, RUNNING, SUCCEEDED, TERMINAL

COMMIT_SECONDS = 5.0
"""A change is recorded before it is committed; until then, readers see the generation before."""

NOT_FOUND = 404


def reads_go_forward(ledger: Ledger) -> Iterator[Violation]:
    """I11: a read after a response shows that state or a later one, and only states that the turn had."""
    accepted: dict[str, float] = {}
    for call in ledger.submits:
        if call.outcome == "ok" and call.turn_id is not None and call.turn_id in ledger.reads:
            accepted[call.turn_id] = min(call.until, accepted.get(call.turn_id, call.until))
    for turn_id, reads in ledger.reads.items():
        session = ledger.session_of(turn_id)
        for read in reads:
            if read.http == NOT_FOUND and read.at >= accepted.get(turn_id, read.until):
                yield Violation("I11", f"{read.client} read 404 after the submit was answered", turn_id, session)
        answered = sorted((read for read in reads if read.outcome == "ok" and read.status), key=lambda read: read.at)
        yield from _backwards(ledger, turn_id, session, answered)
        yield from never_was(ledger, turn_id, session, answered)


def _backwards(ledger: Ledger, turn_id: str, session: str | None, reads: Sequence[Call]) -> Iterator[Violation]:
    known = [read for read in reads if _generation(ledger, read) is not None]
    ended = sorted(known, key=lambda read: read.until)
    place, furthest, seen = 0, (0, False), None
    for read in known:
        while place < len(ended) and ended[place].until <= read.at:
            rank = _rank(ledger, ended[place])
            if rank > furthest:
                furthest, seen = rank, ended[place]
            place += 1
        if seen is not None and _rank(ledger, read) < furthest:
            says = (
                f"{read.client} read {read.status} of generation {_generation(ledger, read)}"
                f" after {seen.client} had read {seen.status} of generation {_generation(ledger, seen)}"
            )
            yield Violation("I11", says, turn_id, session)


def _rank(ledger: Ledger, read: Call) -> tuple[int, bool]:
    return (_generation(ledger, read) or 0, read.status in TERMINAL)


def _generation(ledger: Ledger, call: Call) -> int | None:
    """The generation that an answer is about; None if it does not say and there was more than one."""
    if call.generation is not None:
        return call.generation
    changes = ledger.changes.get(call.turn_id or "")
    return 1 if changes and changes[-1].generation == 1 else None


def never_was(ledger: Ledger, turn_id: str, session: str | None, reads: Sequence[Call]) -> Iterator[Violation]:
    """I11, of answers that show a turn: what each shows, the turn was at some time."""
    changes = ledger.changes.get(turn_id)
    if not changes:
        return
    been = {(change.generation, change.after) for change in changes}
    for read in reads:
        state = (_generation(ledger, read), str(read.status))
        if state[0] is not None and state not in been:
            yield Violation(
                "I11", f"{read.client} read {state[1]} of generation {state[0]}, which it never was", turn_id, session
            )
        if read.status == SUCCEEDED and isinstance(read.output, dict) and "fence" in read.output:
            fences = [change.fence for change in changes if change.after == SUCCEEDED]
            if fences and read.output["fence"] not in fences:
                says = f"{read.client} read a reply of fence {read.output['fence']}, settled was fence {fences[-1]}"
                yield Violation("I11", says, turn_id, session)


def keys_name_one_turn(ledger: Ledger) -> Iterator[Violation]:
    """I12: all that submitted with the same key were answered with the same turn."""
    answers: dict[tuple[str, str], str] = {}
    for call in ledger.submits:
        if call.key is None or call.outcome != "ok" or call.turn_id is None:
            continue
        first = answers.setdefault((call.tenant, call.key), call.turn_id)
        if first != call.turn_id:
            yield Violation(
                "I12", f"key {call.key} was answered with {first} and with this turn", call.turn_id, call.session
            )


def cancels_kept(ledger: Ledger) -> Iterator[Violation]:
    """I13: a cancel that was acknowledged is how the generation ends, and CANCELED is the end for good."""
    for turn_id, changes in ledger.changes.items():
        for change in changes:
            # The request itself leaves the claim as it is.
            asked = change.cancel_requested and change.before == RUNNING
            if asked and (change.after not in (RUNNING, CANCELED) or is_claim(change)):
                says = f"was asked to stop and became {change.after} (generation {change.generation})"
                yield Violation("I13", says, turn_id, change.session)
            if change.before == CANCELED:
                yield Violation("I13", f"was CANCELED and became {change.after}", turn_id, change.session)
    for turn_id, cancels in ledger.cancels.items():
        changes = ledger.changes.get(turn_id, [])
        row = ledger.rows.get(turn_id)
        for call in cancels:
            if call.outcome != "ok" or row is None:
                continue
            if call.status == CANCELED and row.status != CANCELED:
                says = f"{call.client} was told that it is CANCELED, and it is {row.status}"
                yield Violation("I13", says, turn_id, row.session)
            elif call.status is None and row.status != CANCELED:
                says = f"{call.client} was told that it will be CANCELED when it is submitted, and it is {row.status}"
                yield Violation("I13", says, turn_id, row.session)
            elif call.status == RUNNING and (end := _end_after(changes, call)) is not None and end.after != CANCELED:
                says = f"{call.client} was told that it is asked to stop, and it became {end.after}"
                yield Violation("I13", says, turn_id, row.session)


def _end_after(changes: Sequence[Change], call: Call) -> Change | None:
    """How the generation ended that a cancel met; None if that can't be told, or it has not ended."""
    births = [
        change
        for place, change in enumerate(changes)
        if not place or change.generation != changes[place - 1].generation
    ]
    met = [
        birth.generation
        for birth, following in zip(births, [*births[1:], None], strict=True)
        if birth.at <= call.until and (following is None or following.at + COMMIT_SECONDS >= call.at)
    ]
    if len(met) != 1:
        return None
    return next((change for change in changes if change.generation == met[0] and change.after in TERMINAL), None)
