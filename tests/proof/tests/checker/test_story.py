"""The story of a turn: everything that the evidence says about it, in the order of time."""

import re

from tests.proof.checker import stories_of
from tests.proof.checker.evidence import Fault
from tests.proof.tests.checker.conviction import answered
from tests.proof.tests.checker.kinship import Kinship
from tests.proof.tests.checker.scene import Scene


def test_every_kind_of_evidence_has_its_line_in_the_order_of_time() -> None:
    scene = Scene().submit(key="k").play("wire send, wire receive").claim(heard=[]).play("take_over, run")
    scene.play("settle a failed, dead_letter, read").log("turn.failed", timestamp="1970-01-01T00:01:50Z")
    scene.evidence.faults.append(Fault(at=100.05, until=101.0, kind="worker paused", target="w1"))

    lines = stories_of(scene.rest(), ["a"])["a"].splitlines()

    stripped = [re.sub(r"\s+", " ", line).strip().partition(" ")[2] for line in lines]
    assert stripped[0] == "a"
    beginnings = [" ".join(line.split()[:2]) for line in stripped[1:]]
    assert beginnings == [
        "client anna", "audit n=1", "wire send", "wire receive", "fault worker", "audit n=2", "handler began",
        "attempt 1", "audit n=3", "handler began", "handler ended", "attempt 2", "audit n=4", "client anna",
        "log worker", "rest row", "rest history", "rest dead",
    ]  # fmt: skip


def test_a_story_is_about_one_turn_and_its_time() -> None:
    scene = answered().play("submit b, claim b, settle b")
    scene.evidence.faults.append(Fault(at=1.0, until=2.0, kind="postgres down", target="pg"))
    scene.evidence.faults.append(Fault(at=900.0, until=901.0, kind="redis down", target="redis"))

    stories = stories_of(scene.rest(), ["a", "b", "absent", None])

    assert stories.keys() == {"a", "b", "absent"}
    assert "fence 1" in stories["a"]
    assert "fence 2" not in stories["a"]
    assert "fault" not in stories["a"]
    assert stories["absent"] == "turn absent"


def test_the_children_that_a_turn_waits_for_and_what_it_did_once_are_part_of_its_story() -> None:
    scene = Kinship().submit("parent", session="p").play("claim parent, once parent k 1, start child")
    scene.join("parent", ["child"], "any").wake()

    stories = stories_of(scene.rest(), ["parent", "child"])

    for words in ("did k ('1') under fence 1", "got k ('1')", "waits for any of child", "goes on", "value k = '1'"):
        assert words in stories["parent"]
    assert "turn of parent" in stories["child"]
