"""Families: children that are started once (I1, I3, I4), and joins that answer with what became of them (I3, I15, I16)."""

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import amend, assert_convicts, claims_of
from tests.proof.tests.checker.kinship import Kinship, blamed, said_by, told
from tests.proof.tests.checker.scene import Scene


def at_work(policy: str = "all") -> Kinship:
    """A parent that has started two children, and waits."""
    scene = Kinship()
    scene.submit("parent", session="p").claim("parent")
    scene.start("one", key="#1").start("two", key="#2")
    return scene.join("parent", ["one", "two"], policy)


def answered() -> Evidence:
    scene = at_work().answer("one").answer("two").wake()
    return scene.answer("parent", **told(["one", "two"], [said_by(scene, "one"), said_by(scene, "two")])).rest()


def family_of_one() -> Evidence:
    scene = Kinship()
    scene.submit("parent", session="p").claim("parent")
    scene.start("child").join("parent", ["child"]).answer("child").wake()
    return scene.answer("parent", **told(["child"], [said_by(scene, "child")])).rest()


def test_a_family_is_acquitted() -> None:
    assert check(family_of_one()) == []
    assert check(answered()) == []


def test_a_parent_that_caught_a_childs_failure_is_acquitted() -> None:
    scene = at_work().fail("one").wake()
    scene.dead_letter("one")
    scene.answer("parent", **blamed(["one", "two"], "one")).answer("two")

    assert check(scene.rest()) == []


def test_a_parent_that_failed_with_its_child_is_acquitted_and_so_is_its_redrive() -> None:
    scene = at_work().fail("one").wake().fail("parent", error_class="ChildFailedError")
    scene.dead_letter("one").dead_letter("parent").redrive("parent").claim("parent")
    scene.start("another", key="#1").join("parent", ["another", "two"]).answer("two").answer("another").wake()
    scene.answer("parent", **told(["another", "two"], [said_by(scene, "another"), said_by(scene, "two")]))

    assert check(scene.rest()) == []


def test_any_is_content_with_one_that_answered() -> None:
    scene = at_work("any").answer("two").wake()
    scene.answer("parent", **told(["one", "two"], [None, said_by(scene, "two")], "any")).answer("one")

    assert check(scene.rest()) == []


def test_any_gives_up_when_none_has_answered() -> None:
    scene = at_work("any").fail("one")
    scene.cancel("two").dead_letter("one")
    scene.wake().answer("parent", **blamed(["one", "two"], "two", status="CANCELED", error_class=None, policy="any"))
    evidence = scene.rest()
    evidence.history = [call for call in evidence.history if call.turn_id == "parent"]

    assert check(evidence) == []


def test_i1_a_child_without_a_parent() -> None:
    evidence = family_of_one()
    amend(evidence.turns, lambda row: row.turn_id == "child", parent="nobody")

    assert_convicts(evidence, "I1", "not there", "child")


def test_i3_two_children_of_one_call() -> None:
    evidence = answered()
    amend(evidence.turns, lambda row: row.turn_id == "two", child_key="#1")

    assert_convicts(evidence, "I3", "started 2 children by call #1, and is in generation 1", "parent")


def test_i3_two_children_of_one_call_in_a_later_generation() -> None:
    scene = at_work().fail("one").wake().fail("parent", error_class="ChildFailedError")
    scene.redrive("parent").claim("parent").wait(6.0)
    evidence = scene.start("twin", key="#1").start("triplet", key="#1").rest()

    assert_convicts(evidence, "I3", "started 2 children by call #1 in generation 2", "parent")


def test_i4_a_child_that_was_started_by_a_turn_at_rest() -> None:
    scene = at_work().wait(6.0).start("late", key="#3")

    assert_convicts(scene.rest(), "I4", "was started by parent, which had not been RUNNING", "late")


def test_i3_a_parent_that_answers_before_its_child() -> None:
    scene = at_work().answer("one").wake()
    scene.answer("parent", **told(["one", "two"], [said_by(scene, "one"), {"turn": "two"}])).answer("two")

    assert_convicts(scene.rest(), "I3", "was settled before its child two had answered", "parent")


def test_i3_a_join_of_all_that_was_told_nothing_of_one() -> None:
    scene = at_work().answer("one").wake()
    scene.answer("parent", **told(["one", "two"], [said_by(scene, "one"), None])).answer("two")

    assert_convicts(scene.rest(), "I3", "was settled before its child two had answered", "parent")


def test_i3_a_parent_that_quotes_its_child_wrongly() -> None:
    scene = at_work().answer("one").answer("two").wake()
    scene.answer("parent", **told(["one", "two"], [said_by(scene, "two"), said_by(scene, "one")]))

    assert_convicts(scene.rest(), "I3", "was told that child one answered", "parent")


def test_i3_a_parent_that_blames_a_child_that_had_not_failed() -> None:
    scene = at_work().answer("one").wake().answer("parent", **blamed(["one", "two"], "two"))

    assert_convicts(
        scene.answer("two").rest(), "I3", "was told that child two is FAILED (Boom), which it was not", "parent"
    )


def test_i3_any_that_gave_up_while_one_was_open() -> None:
    scene = at_work("any").fail("one").wake().answer("parent", **blamed(["one", "two"], "one", policy="any"))

    assert_convicts(scene.answer("two").rest(), "I3", "gave up although its children two had not ended", "parent")


def test_i3_any_that_was_told_nothing_of_one_that_had_answered_long_before() -> None:
    scene = at_work("any").answer("one").answer("two").wait(6.0).wake()
    scene.answer("parent", **told(["one", "two"], [None, said_by(scene, "two")], "any"))

    assert_convicts(scene.rest(), "I3", "was told nothing of child one, which had answered", "parent")


def test_i3_any_that_was_told_of_nobody() -> None:
    scene = at_work("any").wake().answer("parent", **told(["one", "two"], [None, None], "any"))

    assert_convicts(scene.rest(), "I3", "was told the answer of none", "parent")


def test_i3_a_parent_that_joined_fewer_than_it_started() -> None:
    scene = at_work().answer("one").answer("two").wake()
    scene.answer("parent", **told(["one"], [said_by(scene, "one")]))

    assert_convicts(scene.rest(), "I3", "joined 1 children, and has started 2", "parent")


def test_i3_a_parent_that_joined_a_strangers_child() -> None:
    scene = at_work().answer("one").answer("two").wake()
    scene.answer("parent", **told(["one", "other"], [said_by(scene, "one"), None]))

    assert_convicts(scene.rest(), "I3", "joined other, which it has not started", "parent")


def test_i3_a_parent_that_failed_for_a_child_and_none_had_failed() -> None:
    scene = at_work().answer("one").wake().fail("parent", error_class="ChildFailedError").answer("two")

    assert_convicts(scene.rest(), "I3", "no child of it had failed", "parent")


def test_i7_a_join_that_is_charged() -> None:
    evidence = answered()
    amend(
        evidence.audit,
        lambda change: (change.turn_id, change.before, change.after) == ("parent", "RUNNING", "PENDING"),
        attempt=1,
    )

    assert any(one.invariant == "I7" for one in check(evidence))


def test_an_attempt_that_joined_gives_itself_back() -> None:
    evidence = Scene().submit().claim().run().settle(outcome="joined").claim().run().settle().rest()

    assert check(evidence) == []


def test_i15_a_parent_that_nobody_wakes() -> None:
    evidence = at_work().answer("one").answer("two").rest(rested_at=None)

    assert_convicts(evidence, "I15", "waits at rest for 2 children, which have all ended", "parent")


def test_i16_a_parent_that_runs_while_it_waits() -> None:
    scene = at_work().answer("one").claim("parent")
    scene.settle("parent", "joined").wake()

    assert_convicts(scene.rest(), "I16", "was claimed under fence 3 while it waited for 2 children", "parent")


def test_a_parent_that_goes_on_at_its_expiry_is_acquitted_of_that() -> None:
    scene = at_work().wait(600.0).fail("parent", error_class="expired")

    assert claims_of(scene.rest(), "I16", "parent") == []
