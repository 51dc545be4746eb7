"""I18: a way that the diagram does not have is convicted."""

import pytest

from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import Scene


@pytest.mark.parametrize(
    ("before", "after"),
    [("PENDING", "SUCCEEDED"), ("PENDING", "FAILED"), ("CANCELED", "RUNNING"), ("FAILED", "RUNNING")],
)
def test_i18_a_way_that_the_diagram_does_not_have(before: str, after: str) -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.after == "SUCCEEDED", before=before, after=after)

    assert_convicts(evidence, "I18", f"went from {before} to {after}")


def test_i18_a_turn_that_is_born_running() -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.before is None, after="RUNNING")

    assert_convicts(evidence, "I18", "went from nothing to RUNNING")


def test_i18_a_change_that_went_unrecorded() -> None:
    evidence = answered().rest()
    del evidence.audit[1]

    assert_convicts(evidence, "I18", "was left PENDING and goes on from RUNNING")


def test_i18_a_generation_that_rises_without_a_redrive() -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.after == "RUNNING", generation=2)

    assert_convicts(evidence, "I18", "moved it from generation 1 to 2")


def test_i18_a_place_that_changes() -> None:
    evidence = answered().rest()
    amend(evidence.audit, lambda change: change.after == "RUNNING", seq=4)

    assert_convicts(evidence, "I18", "was changed from 1 to 4")


def test_i18_a_turn_that_is_born_canceled_though_nobody_asked_for_it() -> None:
    evidence = Scene().submit(canceled=True).rest()
    amend(evidence.audit, lambda change: change.before is None, cancel_requested=False)

    assert_convicts(evidence, "I18", "nobody had asked for it")


def test_i18_a_turn_that_is_born_canceled_with_a_place_in_line() -> None:
    evidence = Scene().submit(canceled=True).rest()
    amend(evidence.audit, lambda change: change.before is None, seq=1)

    assert_convicts(evidence, "I18", "born CANCELED with a place")
