"""What the checker says of erasures: what must be gone, what may be gone, and what an unanswered call excuses."""

from dataclasses import replace

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import answered

OF_THE_TURN = ("turns", "messages", "attempts", "values", "webhooks")


def erased(outcome: str | None, *, gone: tuple[str, ...] = OF_THE_TURN) -> Evidence:
    """A turn was answered, then its session was asked to be erased; the rows of these kinds are gone."""
    evidence = answered().rest()
    for kind in gone:
        setattr(evidence, kind, [one for one in getattr(evidence, kind) if one.turn_id != "a"])
    if outcome is not None:
        submit = next(call for call in evidence.history if call.op == "submit")
        at = 1 + max(call.until for call in evidence.history)
        evidence.history.append(
            replace(submit, op="erase", turn_id=None, status=None, outcome=outcome, at=at, until=at + 1)
        )
    return evidence


def claims(evidence: Evidence) -> list[str]:
    return [one.claim for one in check(evidence) if one.invariant == "I25"]


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_an_erasure_explains_that_a_turn_and_all_its_rows_are_gone(outcome: str) -> None:
    assert check(erased(outcome)) == []


def test_an_erasure_without_an_answer_promises_nothing() -> None:
    assert check(erased("unknown", gone=())) == []


def test_a_turn_that_stays_after_an_answered_erasure_is_convicted() -> None:
    assert claims(erased("ok", gone=())) == ["is in the table, and its session was erased after it was accepted"]


def test_rows_that_an_erased_turn_has_left_behind_are_convicted() -> None:
    assert claims(erased("ok", gone=("turns",))) == ["has no row, and rows of other tables are left"]


@pytest.mark.parametrize("outcome", [None, "fail"])
def test_a_turn_that_is_gone_without_an_erasure_is_convicted(outcome: str | None) -> None:
    assert [claim for claim in claims(erased(outcome)) if "no erasure of its session explains that" in claim] != []


def test_a_turn_that_was_submitted_after_an_answered_erasure_must_be_there() -> None:
    evidence = erased("ok")
    submit = next(call for call in evidence.history if call.op == "submit")
    later = evidence.history[-1].until + 1
    evidence.history.append(replace(submit, turn_id="b", key=None, at=later, until=later + 1))

    assert len(claims(evidence)) == 1
