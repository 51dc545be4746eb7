"""I3 and I4 of what is done once: one value for each key, made by the run that recorded it, given to every other."""

from tests.proof.checker import check
from tests.proof.tests.checker.conviction import assert_convicts
from tests.proof.tests.checker.kinship import Kinship


def begun() -> Kinship:
    scene = Kinship()
    scene.submit().claim()
    return scene


def test_a_value_that_every_run_was_given_is_innocent() -> None:
    scene = begun().once("a", "k", "1")
    scene.settle(outcome="retried").claim()
    scene.note("a", "got", "k", "1").run().settle()

    assert check(scene.reply("a", once={"k": "1"}).rest()) == []


def test_a_deed_that_was_repeated_because_its_worker_died_before_its_record_is_innocent() -> None:
    scene = begun().note("a", "did", "k", "1")
    scene.take_over()
    scene.once("a", "k", "2").settle()

    assert check(scene.reply("a", once={"k": "2"}).rest()) == []


def test_a_value_that_one_run_recorded_and_only_the_next_was_given_is_innocent() -> None:
    scene = begun().note("a", "did", "k", "1").record("a", "k", "1")
    scene.take_over()
    scene.note("a", "did", "k", "2").note("a", "got", "k", "1").settle()

    assert check(scene.reply("a", once={"k": "1"}).rest()) == []


def test_i3_a_value_that_was_given_and_is_not_recorded() -> None:
    scene = begun().note("a", "did", "k", "1").note("a", "got", "k", "1")

    assert_convicts(scene.settle().rest(), "I3", "was given '1' for k under fence 1, which is not recorded")


def test_i3_a_run_that_was_given_another_value() -> None:
    scene = begun().once("a", "k", "1")
    scene.settle(outcome="retried").claim()
    scene.note("a", "got", "k", "2").settle()

    assert_convicts(scene.rest(), "I3", "was given '2' for k under fence 2, and recorded is '1'")


def test_i3_a_deed_done_again_after_its_value_had_been_given() -> None:
    scene = begun().once("a", "k", "1")
    scene.settle(outcome="retried").claim()
    scene.note("a", "did", "k", "2").note("a", "got", "k", "1").settle()

    assert_convicts(scene.rest(), "I3", "did k again under fence 2, after its value had been given")


def test_i3_a_value_that_nobody_made() -> None:
    scene = begun().note("a", "did", "k", "1").record("a", "k", "2").note("a", "got", "k", "2")

    assert_convicts(scene.settle().rest(), "I3", "has '2' recorded for k under fence 1, which made ['1']")


def test_i3_a_reply_with_another_value() -> None:
    scene = begun().once("a", "k", "1")
    scene.settle()

    assert_convicts(scene.reply("a", once={"k": "2"}).rest(), "I3", "answered with '2' for k")


def test_i4_a_value_recorded_under_a_fence_that_was_overtaken() -> None:
    scene = begun().note("a", "did", "k", "1")
    scene.take_over().wait(1.0)
    scene.record("a", "k", "1")
    old = scene.evidence.values.pop()
    scene.evidence.values.append(type(old)(turn_id="a", key="k", value="1", fence=1, at=old.at))

    assert_convicts(scene.settle().rest(), "I4", "k was recorded under fence 1, after fence 2 had begun")
