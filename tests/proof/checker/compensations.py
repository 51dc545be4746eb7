"""Compensations: each final failure of a turn has exactly one, born in the same commit (I1), and nothing else has any (I3)."""

from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger, grouped, is_settlement
from tests.proof.checker.rule import Findings, about, rule
from tests.proof.checker.tables import Change, Row
from tests.proof.checker.vocabulary import COMPENSATION, FAILED


@rule("I1")
def failures_are_compensated(ledger: Ledger) -> Findings:
    for turn_id, row in ledger.rows.items():
        if row.kind == COMPENSATION or not ledger.terms.compensates:
            continue
        born_in = {change.txid for one in ledger.compensations[turn_id] for change in ledger.changes[one.turn_id][:1]}
        for failure in _failures(ledger, turn_id):
            if failure.txid not in born_in:
                yield turn_id, f"FAILED in generation {failure.generation}, and that commit made no compensation"


@rule("I3")
def only_failures_are_compensated(ledger: Ledger) -> Findings:
    """A compensation's input says which generation it compensates."""
    for turn_id, born in ledger.compensations.items():
        failed, failures = ledger.rows.get(turn_id), _failures(ledger, turn_id)
        if failed is None:
            # Judged with all turns that have a parent.
            continue
        if len(born) > len(failures):
            yield turn_id, f"has {len(born)} compensations and finally failed {len(failures)} times"
        if failed.kind == COMPENSATION:
            yield turn_id, "is a compensation and has one"
        by_generation = grouped(born, lambda row: ledger.order_of(row.turn_id).get("generation"))
        for failure in failures:
            several = by_generation[failure.generation]
            if len(several) > 1:
                yield turn_id, f"has {len(several)} compensations for generation {failure.generation}"
            for row in several:
                yield from about(row.turn_id, _misinformed(ledger, failure, row))


def _failures(ledger: Ledger, turn_id: str) -> list[Change]:
    return [change for change in ledger.changes[turn_id] if change.after == FAILED != change.before]


def _misinformed(ledger: Ledger, failure: Change, row: Row) -> Iterator[str]:
    """What `row` was born with and has answered, against the failure and the failed turn."""
    given = ledger.order_of(row.turn_id)
    due = {"turn_id": failure.turn_id, "session_id": failure.session, "error_class": failure.error_class}
    if wrong := {name: given.get(name) for name, value in due.items() if given.get(name) != value}:
        yield f"compensates {due}, and its input says {wrong}"
    # What was merged in later, after a redrive, it can't know.
    inputs = ledger.inputs_of(failure.turn_id)
    if given.get("inputs") != inputs[: len(given.get("inputs", ()))] or (inputs and not given.get("inputs")):
        yield f"was given the inputs {given.get('inputs')}, and the failed turn has {inputs}"
    recorded = ledger.values.get(failure.turn_id, {})
    for key, value in given.get("values", {}).items():
        if key not in recorded or recorded[key].value != value:
            yield f"was given {value!r} for {key}, and recorded is {recorded.get(key)}"
    if is_settlement(failure):
        got = {one.key for one in ledger.effects[failure.turn_id] if one.what == "got" and one.at < failure.at}
        if missing := got - given.get("values", {}).keys():
            yield f"was not given what is recorded for {', '.join(sorted(filter(None, missing)))}"
    reply = ledger.reply_of(row.turn_id)
    if isinstance(reply, dict) and reply.get("undid", given) != given:
        yield f"its handler got {reply['undid']!r}, and its input is {given!r}"
