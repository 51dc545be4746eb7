"""Order in a session: I4 fences rise, I5 order, history and halts, I6 one turn at a time."""

from dataclasses import replace
from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.tables import Said
from tests.proof.tests.checker.conviction import (
    CLAIMED,
    ENDED,
    Convicts,
    amended,
    answered,
    more,
    play,
    taken_over,
)
from tests.proof.tests.checker.scene import Scene

REPLY = {"turn": "b", "fence": 1}


def ask(number: int) -> dict[str, Any]:
    return {"do": "echo", "n": number}


def shown(contents: list[Any], *, before: Scene | None = None) -> Evidence:
    """Turn a is shown these contents, after turn b and whatever else `before` has."""
    scene = before or Scene().submit("b", content=ask(1)).play("claim b, settle b")
    scene.submit("a", content=ask(2)).claim("a", inputs=1)
    scene.evidence.runs[-1] = replace(scene.evidence.runs[-1], shown=contents)
    return scene.settle("a").rest()


def broken_off() -> Scene:
    """Turn b was answered; turn c was canceled while it emitted."""
    scene = Scene().submit("b", content=ask(1)).play("claim b, settle b").submit("c", content=ask(3))
    scene.play("claim c, cancel c, settle c")
    scene.evidence.messages.append(Said(turn_id="c", ordinal=1, role="assistant", kind="partial", content="I th"))
    return scene


def halted() -> Scene:
    return play("submit a, submit b, claim a, settle a failed, halt a")


def claimed_by_the_commit_that_halts() -> Evidence:
    evidence = halted().play("claim b, settle b").rest(halts=True)
    halt = evidence.halts[0]
    amended(evidence, "audit", lambda one: (one.turn_id, one.after) == ("b", "RUNNING"), txid=halt.txid, n=halt.n)
    return amended(evidence, "halts", n=halt.n + 1)


def heard(*replies: str) -> Evidence:
    """Turns b and c were answered before turn a."""
    scene = play("submit b, submit c, submit a, claim b, settle b, claim c, settle c")
    return scene.claim("a", heard=replies).settle("a").rest()


PLACED = Scene().submit("b", scheduled=True).play("place b, submit a, claim a, settle a, claim b, settle b")
RETRIED = play("submit, claim, settle a retried, claim, settle")

CONVICTED = (
    Convicts(
        "I4",
        "was claimed under fence 1 after fence 1",
        amended(RETRIED, "audit", lambda one: (one.after, one.fence) == ("RUNNING", 2), fence=1),
    ),
    Convicts("I4", "had fence 1 and is changed from fence 7", amended(answered(), "audit", ENDED, fence_before=7)),
    Convicts("I4", "fence 0 became 5 without a claim", amended(play("submit, cancel"), "audit", 1, fence=5)),
    Convicts("I4", "ran under fence 77", more(answered(), "runs", like=0, fence=77)),
    Convicts("I4", "by the database's clock", amended(answered(), "audit", CLAIMED, lease_until=3700.0)),
    Convicts(
        "I5",
        "seq 2 was claimed while seq 1 (b)",
        play("submit b, submit a, claim b, settle b retried, claim a, settle a, claim b, settle b"),
    ),
    Convicts("I5", "seq 2 was SUCCEEDED while seq 1 (b)", PLACED),
    Convicts("I5", "was shown the replies", heard("c", "b")),
    Convicts("I5", "was shown the replies (b)", heard("b")),
    Convicts("I5", "was shown ['{", shown([REPLY, ask(2)])),
    Convicts("I5", "was shown [] as message 3 of 2", shown([ask(1), REPLY])),
    Convicts("I5", "was shown ['\"I th\"']", shown([ask(1), REPLY, "I th", ask(2)], before=broken_off())),
    Convicts("I5", "is FAILED and did not halt", play("submit, claim, settle a failed, dead_letter").rest(halts=True)),
    Convicts("I5", "under fence 2 while a halted", halted().play("claim b, settle b").rest(halts=True), "b"),
    Convicts("I5", "while a halted its session", claimed_by_the_commit_that_halts(), "b"),
    Convicts(
        "I6",
        "was claimed (fence 2) while b of its session ran under fence 1",
        play("submit b, submit a, claim b, claim a, settle b, settle a"),
    ),
    Convicts("I6", "fence 1 was taken over", amended(taken_over(), "audit", ENDED, lease_before=200.0)),
    Convicts("I6", "run twice under fence 1", play("submit, claim, run a began, settle")),
    Convicts(
        "I9",
        "halts its session, and has a dead letter or is owed one",
        play("submit, claim, settle a failed, halt, dead_letter").rest(halts=True),
    ),
    Convicts("I9", "its dead letter is still to be sent", halted().play("skip a, claim b, settle b").rest(halts=True)),
)
