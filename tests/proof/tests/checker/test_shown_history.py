"""I5: a handler is shown the history word for word, the inputs as well as the replies."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence, Said
from tests.proof.tests.checker.conviction import assert_convicts
from tests.proof.tests.checker.scene import Scene

REPLY = {"turn": "b", "fence": 1}


def ask(number: int) -> dict[str, Any]:
    return {"do": "echo", "n": number}


def shown(contents: list[Any], *, before: Scene | None = None) -> Evidence:
    """Turn a is shown these contents, after turn b and whatever else `before` has."""
    scene = before or Scene().submit("b", content=ask(1)).claim("b").settle("b")
    scene.submit("a", content=ask(2)).claim("a", inputs=1)
    scene.evidence.runs[-1] = replace(scene.evidence.runs[-1], shown=contents)
    return scene.settle("a").rest()


def test_i5_all_that_was_said_before_and_the_turns_own_input() -> None:
    assert check(shown([ask(1), {"fence": 1, "turn": "b"}, ask(2)])) == []


def test_i5_all_inputs_of_a_merged_turn() -> None:
    scene = Scene().submit("b", content=ask(1)).merge("b", content=ask(3)).claim("b", inputs=2).settle("b")
    scene.evidence.messages = [
        replace(said, ordinal=2) if said.role == "assistant" else said for said in scene.evidence.messages
    ]

    assert check(shown([ask(1), ask(3), REPLY, ask(2)], before=scene)) == []


def broken_off() -> Scene:
    """Turn b was answered; turn c was cancelled while it spoke."""
    scene = Scene().submit("b", content=ask(1)).claim("b").settle("b").submit("c", content=ask(3)).claim("c")
    scene.cancel("c").settle("c")
    scene.evidence.messages.append(Said(turn_id="c", ordinal=1, role="assistant", kind="partial", content="I th"))
    return scene


def test_i5_nothing_of_a_turn_that_was_canceled() -> None:
    assert check(shown([ask(1), REPLY, ask(2)], before=broken_off())) == []


@pytest.mark.parametrize("more", [[ask(3)], ["I th"], [ask(3), "I th"]])
def test_i5_a_handler_that_was_shown_what_had_been_broken_off(more: list[Any]) -> None:
    assert_convicts(shown([ask(1), REPLY, *more, ask(2)], before=broken_off()), "I5", "was shown")


def test_i5_the_last_twenty_of_a_long_conversation() -> None:
    scene, said = Scene(), list[Any]()
    for number in range(15):
        scene.submit(f"t{number}", content=ask(10 + number)).claim(f"t{number}").settle(f"t{number}")
        said += [ask(10 + number), {"turn": f"t{number}", "fence": number + 1}]

    assert check(shown([*said[-19:], ask(2)], before=scene)) == []


@pytest.mark.parametrize(
    "contents",
    [
        [ask(2)],
        [REPLY, ask(2)],
        [ask(1), REPLY],
        [REPLY, ask(1), ask(2)],
        [ask(1), ask(1), REPLY, ask(2)],
        [ask(1), REPLY, ask(2), ask(2)],
        [],
    ],
)
def test_i5_a_history_that_leaves_something_out_or_doubles_it_or_moves_it(contents: list[Any]) -> None:
    assert_convicts(shown(contents), "I5", "was shown")
