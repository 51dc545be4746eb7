"""I21: a conversation that did not come out as its transcript is convicted."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.memory_evidence import Conversation
from tests.proof.tests.checker.conviction import assert_convicts
from tests.proof.tests.checker.scene import TENANT, Scene

REMARKS = ("Good morning.", "My sister moved.", "She writes.")
REPLIES = ("When did you wake?", "Is there something?", "Would you know how?")


def spoken(*remarks: str, replies: tuple[str, ...] = REPLIES) -> Scene:
    """Turns a, b, c, d: so many of them were said and answered."""
    scene = Scene()
    scene.evidence.conversations.append(
        Conversation(tenant=TENANT, session="s", name="001", remarks=REMARKS, replies=REPLIES)
    )
    for turn_id, remark, reply in zip("abcd", remarks, (*replies, "And?"), strict=False):
        scene.submit(turn_id, content=line(remark)).claim(turn_id).settle(turn_id)
        scene.evidence.messages[-1] = replace(scene.evidence.messages[-1], content=reply)
    return scene


def line(remark: str) -> dict[str, Any]:
    return {"do": "converse", "text": remark}


@pytest.mark.parametrize("many", [0, 1, 3])
def test_i21_a_conversation_that_came_so_far(many: int) -> None:
    assert check(spoken(*REMARKS[:many]).rest()) == []


def test_i21_a_turn_that_failed_is_no_part_of_it() -> None:
    scene = spoken(*REMARKS[:1])
    scene.submit("z", content=line(REMARKS[1])).claim("z").settle("z", "failed").dead_letter("z")

    assert check(scene.rest()) == []


def test_i21_what_is_redriven_behind_a_compensation_is_another_conversation() -> None:
    scene = spoken(*REMARKS[:1]).submit("z", content={"turn_id": "y"}).claim("z").settle("z")
    scene.turns["z"].row = replace(scene.turns["z"].row, kind="compensation")
    scene.submit("y", content=line(REMARKS[1])).claim("y").settle("y")
    evidence = scene.rest()

    assert [violation for violation in check(evidence) if violation.invariant == "I21"] == []


def test_i21_another_reply() -> None:
    evidence = spoken(*REMARKS, replies=(REPLIES[0], "Go on.", REPLIES[2])).rest()

    assert_convicts(
        evidence, "I21", "was answered ['Go on.'], and the transcript has 'Is there something?'", turn_id="b"
    )


def test_i21_a_remark_that_was_left_out() -> None:
    evidence = spoken(REMARKS[0], REMARKS[2], replies=(REPLIES[0], REPLIES[2])).rest()

    assert_convicts(evidence, "I21", "in place of 'My sister moved.' (line 2 of 001)", turn_id="b")


def test_i21_a_remark_that_was_answered_twice() -> None:
    evidence = spoken(REMARKS[0], REMARKS[0], replies=(REPLIES[0], REPLIES[0])).rest()

    assert_convicts(evidence, "I21", "in place of 'My sister moved.'", turn_id="b")


def test_i21_more_than_the_transcript_has() -> None:
    assert_convicts(spoken(*REMARKS, "And then?").rest(), "I21", "the transcript is over (line 4 of 001)", turn_id="d")
