"""Promises to clients: reads go forward (I11), a key names one turn (I12), an acknowledged cancel stays (I13)."""

from collections.abc import Iterator, Sequence

from tests.proof.checker.evidence import Call
from tests.proof.checker.ledger import Ledger, is_claim
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change
from tests.proof.checker.vocabulary import CANCELED, RUNNING, SUCCEEDED, TERMINAL

COMMIT_SECONDS = 5.0
"""A change is recorded before it is committed; until then, readers see the generation before."""

NOT_FOUND = 404


@rule("I11")
def accepted_turns_are_found(ledger: Ledger) -> Findings:
    accepted: dict[str | None, float] = {}
    for call in ledger.submits:
        if call.outcome == "ok":
            accepted[call.turn_id] = min(call.until, accepted.get(call.turn_id, call.until))
    for turn_id, reads in ledger.reads.items():
        for read in reads:
            if read.http == NOT_FOUND and read.at >= accepted.get(turn_id, read.until):
                yield turn_id, f"{read.client} read 404 after the submit was answered"


@rule("I11")
def reads_go_forward(ledger: Ledger) -> Findings:
    """A read after a response shows that state or a later one."""
    for turn_id, reads in ledger.reads.items():
        known = [read for read in _answered(reads) if _generation(ledger, read) is not None]
        ended = sorted(known, key=lambda read: read.until)
        place, furthest, seen = 0, (0, False), None
        for read in known:
            while place < len(ended) and ended[place].until <= read.at:
                rank = _rank(ledger, ended[place])
                if rank > furthest:
                    furthest, seen = rank, ended[place]
                place += 1
            if seen is not None and _rank(ledger, read) < furthest:
                says = f"{read.client} read {read.status} of generation {_generation(ledger, read)}"
                earlier = f"{seen.client} had read {seen.status} of generation {_generation(ledger, seen)}"
                yield turn_id, f"{says} after {earlier}"


@rule("I11")
def answers_are_true(ledger: Ledger) -> Findings:
    """What a read or a submit that waited shows, the turn was at some time."""
    for turn_id, reads in ledger.reads.items():
        yield from about(turn_id, _untrue(ledger, turn_id, _answered(reads)))
    for call in ledger.submits:
        waited = call.wait is not None and call.outcome == "ok" and call.status in TERMINAL
        yield from about(call.turn_id, _untrue(ledger, call.turn_id or "", [call] if waited else []))


def _answered(reads: Sequence[Call]) -> list[Call]:
    return sorted((read for read in reads if read.outcome == "ok" and read.status), key=lambda read: read.at)


def _rank(ledger: Ledger, read: Call) -> tuple[int, bool]:
    return (_generation(ledger, read) or 0, read.status in TERMINAL)


def _generation(ledger: Ledger, call: Call) -> int | None:
    """The generation that an answer is about; None if it does not say and there was more than one."""
    if call.generation is not None:
        return call.generation
    changes = ledger.changes[call.turn_id or ""]
    return 1 if changes and changes[-1].generation == 1 else None


def _untrue(ledger: Ledger, turn_id: str, answers: Sequence[Call]) -> Iterator[str]:
    changes = ledger.changes[turn_id] if answers else []
    been = {(change.generation, change.after) for change in changes}
    fences = [change.fence for change in changes if change.after == SUCCEEDED]
    for call in answers if changes else ():
        generation, output = _generation(ledger, call), call.output
        if generation is not None and (generation, call.status) not in been:
            yield f"{call.client} read {call.status} of generation {generation}, which it never was"
        if (
            call.status == SUCCEEDED
            and fences
            and isinstance(output, dict)
            and output.get("fence", fences[0]) not in fences
        ):
            yield f"{call.client} read a reply of fence {output['fence']}, settled was fence {fences[-1]}"


@rule("I12")
def keys_name_one_turn(ledger: Ledger) -> Findings:
    answers: dict[tuple[str, str], str] = {}
    for call in ledger.submits:
        if call.key is None or call.outcome != "ok" or call.turn_id is None:
            continue
        first = answers.setdefault((call.tenant, call.key), call.turn_id)
        if first != call.turn_id:
            yield call.turn_id, f"key {call.key} was answered with {first} and with this turn"


@rule("I13")
def cancels_end_generations(ledger: Ledger) -> Findings:
    """What was asked to stop becomes CANCELED, and CANCELED is the end for good."""
    for change in ledger.evidence.audit:
        # The request itself leaves the claim as it is.
        asked = change.cancel_requested and change.before == RUNNING
        if asked and (change.after not in (RUNNING, CANCELED) or is_claim(change)):
            yield change.turn_id, f"was asked to stop and became {change.after} (generation {change.generation})"
        if change.before == CANCELED:
            yield change.turn_id, f"was CANCELED and became {change.after}"


@rule("I13")
def acknowledged_cancels_are_kept(ledger: Ledger) -> Findings:
    for turn_id, cancels in ledger.cancels.items():
        row = ledger.rows.get(turn_id)
        for call in cancels:
            if call.outcome != "ok" or row is None:
                continue
            if row.status != CANCELED and call.status in (CANCELED, None):
                promise = "is CANCELED" if call.status else "will be CANCELED when it is submitted"
                yield turn_id, f"{call.client} was answered that it {promise}, and it is {row.status}"
            end = _end_after(ledger.changes[turn_id], call) if call.status == RUNNING else None
            if end is not None and end.after != CANCELED:
                yield turn_id, f"{call.client} was answered that it is asked to stop, and it became {end.after}"


def _end_after(changes: Sequence[Change], call: Call) -> Change | None:
    """How the generation ended that a cancel met; None if that can't be known, or it has not ended."""
    begun = {change.generation: change.at for change in reversed(changes)}
    met = [
        generation
        for generation, at in begun.items()
        if at <= call.until and begun.get(generation + 1, call.at) + COMMIT_SECONDS >= call.at
    ]
    if len(met) != 1:
        return None
    return next((change for change in changes if change.generation == met[0] and change.after in TERMINAL), None)
