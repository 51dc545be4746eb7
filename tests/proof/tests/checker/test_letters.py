"""I9 dead letters, I10 deletes after the commit: each way to break them is convicted, by name."""

from tests.proof.checker import check
from tests.proof.checker.evidence import Fault
from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import Scene, body_of


def test_i9_a_dead_letter_that_is_not_on_the_queue() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").dead_letter().rest()
    evidence.queued.clear()

    assert_convicts(evidence, "I9", "its dead letter of generation 1 is not on the DLQ")


def test_i9_a_dead_letter_of_an_older_generation_only() -> None:
    scene = Scene().submit().claim().settle(outcome="failed").dead_letter().redrive().claim()
    evidence = scene.settle(outcome="failed").dead_letter().rest()
    del evidence.queued[1]

    assert_convicts(evidence, "I9", "its dead letter of generation 2 is not on the DLQ")


def test_i9_a_dead_letter_that_was_never_sent() -> None:
    assert_convicts(Scene().submit().claim().settle(outcome="failed").rest(), "I9", "still to be sent")


def test_i9_a_dead_letter_that_is_forgotten() -> None:
    evidence = Scene().submit().claim().settle(outcome="failed").rest()
    amend(evidence.turns, lambda row: True, send_at=None)

    assert_convicts(evidence, "I9", "no dead letter was sent or is owed")


def test_i9_a_dead_letter_of_a_turn_that_was_answered() -> None:
    evidence = answered().queue(body_of("a"), dead=True, **{"turnstile.generation": "1"}).rest()

    assert_convicts(evidence, "I9", "generation 1, which never was FAILED")


def test_i9_a_dead_letter_of_nobody() -> None:
    evidence = Scene().queue(body_of("a"), dead=True, **{"turnstile.generation": "1"}).rest()

    assert_convicts(evidence, "I9", "has a dead letter (m0) and no row")


def test_i9_a_dead_letter_where_the_handler_wanted_none() -> None:
    scene = Scene().submit(content={"do": "reject", "dead_letter": False}).claim()
    evidence = scene.settle(outcome="failed", error_class="Reject").dead_letter().rest()

    assert_convicts(evidence, "I9", "was rejected without a dead letter, and has one")


def test_i9_a_message_on_the_main_queue_at_rest() -> None:
    assert_convicts(answered().queue(body_of("a"), dead=False).rest(), "I9", "on the main queue at rest")


def test_i9_a_dead_letter_that_nobody_understands_and_nobody_called_malformed() -> None:
    assert_convicts(Scene().queue("?", dead=True).rest(), "I9", "can't be understood", None)


def test_i9_a_letter_that_a_purge_took_away_convicts_nobody() -> None:
    scene = Scene().submit().claim().settle(outcome="failed").dead_letter().wire("send", dead=True)
    evidence = scene.rest()
    evidence.queued.clear()
    evidence.faults.append(Fault(at=1.0, until=2.0, kind="queue purged", target="sqs"))

    assert check(evidence) == []


def test_i10_a_message_that_is_deleted_before_the_settlement() -> None:
    evidence = Scene().submit().wire("receive").claim().wire("delete").settle().rest()

    assert_convicts(evidence, "I10", "while its only hold had settled nothing")


def test_i10_a_message_that_is_deleted_before_its_turn_is_recorded() -> None:
    evidence = Scene().wire("receive").wire("delete").submit().claim().settle().rest()

    assert_convicts(evidence, "I10", "deleted before the turn was recorded")


def test_i10_a_malformed_message_that_is_just_deleted() -> None:
    evidence = Scene().wire("receive", None, body="?").wire("delete", None, body="?").rest()

    assert_convicts(evidence, "I10", "with no copy on the DLQ", None)


def test_i10_a_malformed_message_that_is_copied_only_afterwards() -> None:
    scene = Scene().wire("delete", None, body="?").wire("send", None, dead=True, body="?")

    assert_convicts(scene.rest(), "I10", "with no copy on the DLQ", None)
