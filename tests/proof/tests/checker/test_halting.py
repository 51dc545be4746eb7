"""I5 and I9 on a halting queue: what halts, what a halted session may not do, and which letters are owed."""

from tests.proof.checker import check
from tests.proof.tests.checker.conviction import amend, assert_convicts
from tests.proof.tests.checker.scene import Scene


def halted() -> Scene:
    return Scene().submit("a").submit("b").claim("a").settle("a", outcome="failed").halt("a")


def test_a_session_that_was_halted_and_skipped_is_innocent() -> None:
    scene = halted().skip("a").dead_letter("a").claim("b").settle("b")

    assert check(scene.rest(halts=True)) == []


def test_a_session_that_was_halted_and_retried_is_innocent() -> None:
    scene = halted().retry("a").claim("a").settle("a").claim("b").settle("b")

    assert check(scene.rest(halts=True)) == []


def test_a_turn_that_halts_at_rest_owes_nothing() -> None:
    scene = Scene().submit().claim().settle(outcome="failed").halt()

    assert check(scene.rest(halts=True)) == []


def test_i5_a_turn_that_failed_without_halting() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").dead_letter().rest(halts=True)

    assert_convicts(evidence, "I5", "is FAILED and did not halt its session")


def test_i5_a_turn_that_was_begun_in_a_halted_session() -> None:
    evidence = halted().claim("b").settle("b").rest(halts=True)

    assert_convicts(evidence, "I5", "while a halted its session", "b")


def test_i9_a_turn_that_halts_and_has_its_letter_already() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").halt().dead_letter().rest(halts=True)

    assert_convicts(evidence, "I9", "halts its session, and has a dead letter or is owed one")


def test_i9_a_turn_that_was_skipped_and_has_no_letter() -> None:
    evidence = halted().skip("a").claim("b").settle("b").rest(halts=True)

    assert_convicts(evidence, "I9", "its dead letter is still to be sent")


def test_i5_a_turn_that_was_begun_by_the_very_commit_that_halts() -> None:
    evidence = halted().claim("b").settle("b").rest(halts=True)
    halt = evidence.halts[0]
    amend(evidence.audit, lambda change: change.turn_id == "b" and change.after == "RUNNING", txid=halt.txid, n=halt.n)
    amend(evidence.halts, lambda one: True, n=halt.n + 1)

    assert_convicts(evidence, "I5", "while a halted its session", "b")
