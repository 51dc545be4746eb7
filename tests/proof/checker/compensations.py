"""Compensations: each final failure of a turn has exactly one, born in the same commit (I1), and nothing else has any (I3)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.proof.checker.ledger import Ledger, is_settlement
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import COMPENSATION, FAILED


def compensations(ledger: Ledger) -> Iterator[Violation]:
    """I1, I3. Which generation it compensates, a compensation's input says."""
    for turn_id, born in ledger.compensations.items():
        failed = ledger.rows.get(turn_id)
        if failed is None:
            # Judged with all turns that have a parent.
            continue
        failures = [change for change in ledger.changes.get(turn_id, ()) if _fails(change)]
        if len(born) > len(failures):
            says = f"has {len(born)} compensations and finally failed {len(failures)} times"
            yield Violation("I3", says, turn_id, failed.session)
        if failed.kind == COMPENSATION:
            yield Violation("I3", "is a compensation and has one", turn_id, failed.session)
        by_generation: defaultdict[int | None, list[Row]] = defaultdict(list)
        for row in born:
            by_generation[_input_of(ledger, row).get("generation")].append(row)
        for change in failures:
            several = by_generation[change.generation]
            if len(several) > 1:
                says = f"has {len(several)} compensations for generation {change.generation}"
                yield Violation("I3", says, turn_id, failed.session)
            for row in several:
                for says in _misinformed(ledger, change, row):
                    yield Violation("I3", says, row.turn_id, row.session)
    if ledger.terms.compensates:
        yield from _owed(ledger)


def _owed(ledger: Ledger) -> Iterator[Violation]:
    for turn_id, row in ledger.rows.items():
        if row.kind == COMPENSATION:
            continue
        born_in = {
            changes[0].txid
            for one in ledger.compensations.get(turn_id, ())
            if (changes := ledger.changes.get(one.turn_id))
        }
        for change in ledger.changes.get(turn_id, ()):
            if _fails(change) and change.txid not in born_in:
                says = f"FAILED in generation {change.generation}, and that commit made no compensation"
                yield Violation("I1", says, turn_id, row.session)


def _fails(change: Change) -> bool:
    return change.after == FAILED and change.before != FAILED


def _input_of(ledger: Ledger, row: Row) -> dict[str, Any]:
    said = next((one.content for one in ledger.said.get(row.turn_id, ()) if one.role == "user"), None)
    return said if isinstance(said, dict) else {}


def _misinformed(ledger: Ledger, failure: Change, row: Row) -> Iterator[str]:
    """What `row` was born with and has answered, against the failure and the failed turn."""
    told = _input_of(ledger, row)
    due = {"turn_id": failure.turn_id, "session_id": failure.session, "error_class": failure.error_class}
    if wrong := {name: told.get(name) for name, value in due.items() if told.get(name) != value}:
        yield f"compensates {due}, and was told {wrong}"
    # What was merged in later, after a redrive, it can't know.
    inputs = [one.content for one in _inputs(ledger, failure.turn_id)]
    if told.get("inputs") != inputs[: len(told.get("inputs", ()))] or (inputs and not told.get("inputs")):
        yield f"was told the inputs {told.get('inputs')}, and the failed turn has {inputs}"
    recorded = ledger.values.get(failure.turn_id, {})
    for key, value in told.get("values", {}).items():
        if key not in recorded or recorded[key].value != value:
            yield f"was told {value!r} for {key}, and recorded is {recorded.get(key)}"
    if is_settlement(failure):
        given = {
            one.key for one in ledger.effects.get(failure.turn_id, ()) if one.what == "got" and one.at < failure.at
        }
        if missing := given - told.get("values", {}).keys():
            yield f"was not told what is recorded for {', '.join(sorted(filter(None, missing)))}"
    reply = ledger.reply_of(row.turn_id)
    if isinstance(reply, dict) and reply.get("undid", told) != told:
        yield f"was given {reply['undid']!r}, and its input is {told!r}"


def _inputs(ledger: Ledger, turn_id: str) -> list[Any]:
    said = [one for one in ledger.said.get(turn_id, ()) if one.role == "user" and one.kind == "message"]
    return sorted(said, key=lambda one: one.ordinal)
