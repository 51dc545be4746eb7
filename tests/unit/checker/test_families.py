"""I1 and I3 of turns that other turns have brought about: each way to break them is convicted, by name."""

from typing import Any

from tests.chaos.checker import check
from tests.chaos.checker.evidence import Evidence
from tests.unit.checker.conviction import amend, assert_convicts
from tests.unit.checker.scene import Scene


def family(**child: Any) -> Evidence:
    """A parent that has waited for its child; of the child no client knows."""
    scene = Scene().submit("parent", session="p").claim("parent")
    scene.submit("child", session="c").settle("parent", "joined")
    evidence = scene.claim("child").run("child").settle("child").claim("parent").run("parent").settle("parent").rest()
    evidence.history = [call for call in evidence.history if call.turn_id == "parent"]
    amend(evidence.turns, lambda row: row.turn_id == "child", **{"parent": "parent", "child_key": "#1", **child})
    return evidence


def test_a_family_is_acquitted() -> None:
    assert check(family()) == []


def test_i1_a_child_without_a_parent() -> None:
    assert_convicts(family(parent="nobody"), "I1", "not there", "child")


def test_i3_two_children_of_one_call() -> None:
    evidence = family()
    [child] = [row for row in evidence.turns if row.turn_id == "child"]
    scene = Scene().submit("twin", session="t").claim("twin").run("twin").settle("twin").rest()
    amend(scene.turns, lambda _: True, parent="parent", child_key=child.child_key)
    evidence.turns += scene.turns

    assert_convicts(evidence, "I3", "started 2 children by call #1", "parent")


def test_i3_a_compensation_of_a_turn_that_did_not_fail() -> None:
    assert_convicts(family(kind="compensation", child_key=None), "I3", "finally failed 0 times", "parent")


def test_i7_a_join_that_is_charged() -> None:
    evidence = family()
    amend(
        evidence.audit,
        lambda change: change.turn_id == "parent" and change.after == "PENDING" and change.before,
        attempt=1,
    )

    assert any(one.invariant == "I7" for one in check(evidence))


def test_an_attempt_that_joined_gives_itself_back() -> None:
    evidence = Scene().submit().claim().run().settle(outcome="joined").claim().run().settle().rest()

    assert check(evidence) == []
