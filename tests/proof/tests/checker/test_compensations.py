"""I1 and I3 of compensations: one for each final failure, in its commit, told what had failed."""

from tests.proof.checker import check
from tests.proof.tests.checker.conviction import amend, assert_convicts
from tests.proof.tests.checker.kinship import Kinship, said_by


def failed(error_class: str = "Boom") -> Kinship:
    scene = Kinship()
    scene.submit("a").claim("a")
    scene.once("a", "k", "1").settle("a", "failed", error_class=error_class)
    return scene


def undone() -> Kinship:
    scene = failed().compensate("a")
    scene.dead_letter("a").claim("undo").run("undo").settle("undo")
    return scene.reply("undo", undid=scene.turns["undo"].content)


def test_a_failure_that_was_compensated_is_innocent() -> None:
    scene = undone()

    assert said_by(scene, "undo")["undid"]["values"] == {"k": "1"}
    assert check(scene.rest_of_family()) == []


def test_a_redriven_turn_that_fails_again_is_compensated_again() -> None:
    scene = undone()
    scene.redrive("a").claim("a").settle("a", "failed")
    scene.compensate("a", "undo-again").dead_letter("a").claim("undo-again").settle("undo-again")

    assert check(scene.rest_of_family()) == []


def test_a_crash_loop_that_was_compensated_is_innocent() -> None:
    scene = Kinship()
    scene.submit("a").claim("a").take_over("a").take_over("a").take_over("a", "FAILED")
    scene.compensate("a").dead_letter("a").claim("undo").settle("undo")

    assert check(scene.rest_of_family()) == []


def test_a_compensation_that_failed_itself_needs_none() -> None:
    scene = failed().compensate("a")
    scene.dead_letter("a").claim("undo").settle("undo", "failed").dead_letter("undo")

    assert check(scene.rest_of_family()) == []


def test_without_a_handler_for_failures_none_is_owed() -> None:
    scene = failed()

    assert check(scene.dead_letter("a").rest()) == []


def test_i1_a_failure_without_a_compensation() -> None:
    scene = failed()

    assert_convicts(scene.dead_letter("a").rest_of_family(), "I1", "FAILED in generation 1, and that commit made no")


def test_i1_a_compensation_that_was_born_in_another_commit() -> None:
    evidence = undone().rest_of_family()
    amend(evidence.audit, lambda change: change.turn_id == "undo" and change.before is None, txid=999)

    assert_convicts(evidence, "I1", "that commit made no compensation")


def test_i3_two_compensations_of_one_failure() -> None:
    scene = failed().compensate("a").compensate("a", "undo-twice")

    assert_convicts(scene.rest_of_family(), "I3", "has 2 compensations for generation 1")


def test_i3_a_compensation_of_a_turn_that_did_not_fail() -> None:
    scene = Kinship()
    scene.submit("a").claim("a").settle("a")
    scene.compensate("a")

    assert_convicts(scene.rest_of_family(), "I3", "has 1 compensations and finally failed 0 times")


def test_i3_a_compensation_of_a_compensation() -> None:
    scene = failed().compensate("a")
    scene.claim("undo").settle("undo", "failed")
    scene.compensate("undo", "undo-undo")

    assert_convicts(scene.rest_of_family(), "I3", "is a compensation and has one", "undo")


def test_i3_a_compensation_that_was_told_of_another_error() -> None:
    scene = failed().compensate("a", error_class="Other")

    assert_convicts(scene.rest_of_family(), "I3", "was told {'error_class': 'Other'}", "undo")


def test_i3_a_compensation_that_was_told_other_inputs() -> None:
    assert_convicts(failed().compensate("a", inputs=[]).rest_of_family(), "I3", "was told the inputs []", "undo")


def test_i3_a_compensation_that_was_told_another_value() -> None:
    scene = failed().compensate("a", values={"k": "2"})

    assert_convicts(scene.rest_of_family(), "I3", "was told '2' for k", "undo")


def test_i3_a_compensation_that_was_not_told_a_value() -> None:
    scene = failed().compensate("a", values={})

    assert_convicts(scene.rest_of_family(), "I3", "was not told what is recorded for k", "undo")


def test_i3_a_compensation_that_was_given_something_else() -> None:
    scene = undone()
    scene.reply("undo", undid={"turn_id": "b"})

    assert_convicts(scene.rest_of_family(), "I3", "was given {'turn_id': 'b'}", "undo")
