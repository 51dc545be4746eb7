"""I20: an end that nobody was told of, or was told of otherwise than it was, or without an end, is convicted."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted
from tests.proof.tests.checker.conviction import amend, answered, assert_convicts
from tests.proof.tests.checker.scene import Scene

EVENT = {"id": "a", "generation": 1, "status": "SUCCEEDED", "attempt": 1}
LATER = 1000.0

OWED = OwedWebhook(turn_id="a", generation=1, event=EVENT, due_at=None, tries=2, delivered_at=LATER)
TAKEN = Posted(
    at=LATER,
    event_id="turn_a_1",
    verified=True,
    digest="d",
    body={"type": "turn.succeeded", "data": EVENT},
    answer="204",
)
REFUSED = replace(TAKEN, answer="500")
GONE = replace(TAKEN, answer="410")


def told(owed: list[OwedWebhook], posts: list[Posted], scene: Scene | None = None) -> Evidence:
    """A turn that was answered and asked for a webhook, and what came of that."""
    scene = scene or answered()
    turn = scene.turns["a"]
    turn.row = replace(turn.row, webhook=True)
    evidence = scene.rest()
    evidence.webhooks, evidence.posts = owed, posts
    return evidence


GIVEN_UP: dict[str, Any] = {"delivered_at": None, "error": "status 500"}


@pytest.mark.parametrize(
    ("owed", "posts"),
    [
        (OWED, [TAKEN]),
        (OWED, [TAKEN, TAKEN]),
        (OWED, [replace(TAKEN, answer="drop"), TAKEN]),
        (replace(OWED, **GIVEN_UP, tries=16), [REFUSED]),
        (replace(OWED, **GIVEN_UP, tries=16), []),
        (replace(OWED, **GIVEN_UP, tries=1), [GONE]),
    ],
    ids=["told", "told twice", "told after an answer was lost", "given up", "never reached", "not wanted any more"],
)
def test_i20_an_end_that_was_told_or_rightly_given_up(owed: OwedWebhook, posts: list[Posted]) -> None:
    assert check(told([owed], posts)) == []


def test_i20_each_generation_is_told_of_its_own_end() -> None:
    scene = Scene().submit().claim().run().settle(outcome="failed").redrive().claim().run().settle()
    failed = {**EVENT, "status": "FAILED"}
    again = {**EVENT, "generation": 2}
    owed = [replace(OWED, event=failed), replace(OWED, generation=2, event=again)]
    posts = [
        replace(TAKEN, digest="f", body={"data": failed}),
        replace(TAKEN, event_id="turn_a_2", body={"data": again}),
    ]

    assert check(told(owed, posts, scene)) == []


@pytest.mark.parametrize(
    ("owed", "posts", "words"),
    [
        ([], [], "became SUCCEEDED in generation 1, and nobody is to be told"),
        ([replace(OWED, event={**EVENT, "status": "FAILED"})], [TAKEN], "is told of as ('a', 1, 'FAILED', 1)"),
        ([OWED, replace(OWED, generation=2)], [TAKEN], "for generation 2, which has not ended"),
        ([OWED], [], "is called delivered, and its receiver took none"),
        ([OWED], [REFUSED], "is called delivered, and its receiver took none"),
        ([replace(OWED, delivered_at=None, due_at=LATER)], [REFUSED], "is still due at rest"),
        ([replace(OWED, **GIVEN_UP)], [REFUSED], "was given up after 2 tries (status 500)"),
        ([OWED], [TAKEN] * 3, "was posted 3 times, of 2 tries"),
        ([OWED], [TAKEN, replace(TAKEN, verified=False)], "a signature that does not fit"),
        ([OWED], [TAKEN, replace(TAKEN, digest="e")], "did not say the same"),
        ([OWED], [replace(TAKEN, body={"data": {**EVENT, "attempt": 2}})], "and what happened is"),
        ([OWED], [replace(TAKEN, body=None)], "said None"),
        ([OWED], [replace(TAKEN, at=1.0)], "s before the turn ended"),
        ([OWED], [TAKEN, replace(TAKEN, event_id="turn_a_9")], "as turn_a_9, which nobody owes"),
    ],
)
def test_i20_an_end_that_was_told_otherwise(owed: list[OwedWebhook], posts: list[Posted], words: str) -> None:
    assert_convicts(told(owed, posts), "I20", words)


def test_i20_a_webhook_of_a_turn_that_goes_on() -> None:
    assert_convicts(told([OWED], [TAKEN], Scene().submit().claim()), "I20", "generation 1, which has not ended")


def test_i20_a_webhook_that_was_accepted_and_forgotten() -> None:
    evidence = answered().rest()
    amend(evidence.history, lambda call: call.op == "submit", webhook=True)

    assert_convicts(evidence, "I20", "was accepted from anna with a webhook, and has none")
