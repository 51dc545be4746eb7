"""Order in a session: I4 fences rise, I5 order, history and halts, I6 one turn at a time."""

from dataclasses import replace
from typing import Any

from tests.proof.checker.evidence import Evidence, Said
from tests.proof.tests.checker.conviction import (
    CLAIMED,
    ENDED,
    Build,
    Convicts,
    amended,
    answered,
    assert_acquits,
    each,
    more,
    taken_over,
)
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


def merged() -> Scene:
    scene = Scene().submit("b", content=ask(1)).merge("b", content=ask(3)).claim("b", inputs=2).settle("b")
    amended(scene.evidence, "messages", lambda one: one.role == "assistant", ordinal=2)
    return scene


def broken_off() -> Scene:
    """Turn b was answered; turn c was canceled while it emitted."""
    scene = Scene().submit("b", content=ask(1)).claim("b").settle("b").submit("c", content=ask(3)).claim("c")
    scene.cancel("c").settle("c")
    scene.evidence.messages.append(Said(turn_id="c", ordinal=1, role="assistant", kind="partial", content="I th"))
    return scene


def a_long_conversation() -> Evidence:
    scene, said = Scene(), list[Any]()
    for number in range(15):
        scene.submit(f"t{number}", content=ask(10 + number)).claim(f"t{number}").settle(f"t{number}")
        said += [ask(10 + number), {"turn": f"t{number}", "fence": number + 1}]
    return shown([*said[-19:], ask(2)], before=scene)


def halted() -> Scene:
    return Scene().submit("a").submit("b").claim("a").settle("a", outcome="failed").halt("a")


def claimed_by_the_commit_that_halts() -> Evidence:
    evidence = halted().claim("b").settle("b").rest(halts=True)
    halt = evidence.halts[0]
    amended(evidence, "audit", lambda one: (one.turn_id, one.after) == ("b", "RUNNING"), txid=halt.txid, n=halt.n)
    return amended(evidence, "halts", n=halt.n + 1)


def heard(*replies: str) -> Evidence:
    scene = Scene().submit("b").submit("c").submit("a").claim("b", heard=[]).settle("b").claim("c").settle("c")
    return scene.claim("a", heard=replies).settle("a").rest()


PASSED = "seq 2 was claimed while seq 1 (b)"

CASES = (
    Convicts(
        "I4",
        "was claimed under fence 1 after fence 1",
        lambda: amended(
            Scene().submit().claim().settle(outcome="retried").claim().settle(),
            "audit",
            lambda one: (one.after, one.fence) == ("RUNNING", 2),
            fence=1,
        ),
    ),
    Convicts(
        "I4",
        "was claimed under fence 1 after fence 2",
        lambda: amended(taken_over(), "audit", lambda one: one.after == "SUCCEEDED", fence=1),
    ),
    Convicts(
        "I4",
        "fence 0 became 5 without a claim",
        lambda: amended(Scene().submit().cancel(), "audit", lambda one: one.after == "CANCELED", fence=5),
    ),
    Convicts("I4", "ran under fence 77", lambda: more(answered(), "runs", like=0, fence=77)),
    Convicts("I4", "by the database's clock", lambda: amended(answered(), "audit", CLAIMED, lease_until=3700.0)),
    Convicts("I5", PASSED, lambda: Scene().submit("b").submit("a").claim("a").settle("a").claim("b").settle("b")),
    Convicts(
        "I5",
        PASSED,
        lambda: (
            Scene()
            .submit("b")
            .submit("a")
            .claim("b")
            .settle("b", "retried")
            .claim("a")
            .settle("a")
            .claim("b")
            .settle("b")
        ),
    ),
    Convicts(
        "I5",
        PASSED,
        lambda: (
            Scene().submit("b", scheduled=True).place("b").submit("a").claim("a").settle("a").claim("b").settle("b")
        ),
    ),
    Convicts("I5", "was shown the replies", lambda: heard("c", "b")),
    Convicts("I5", "was shown the replies", lambda: heard("b")),
    Convicts(
        "I5",
        "was shown the replies",
        lambda: (
            Scene()
            .submit("b")
            .submit("a")
            .claim("b")
            .settle("b", "failed")
            .dead_letter("b")
            .claim("a", heard=["b"])
            .settle("a")
        ),
    ),
    Convicts("I5", "was shown", lambda: shown([REPLY, ask(2)])),
    Convicts("I5", "was shown", lambda: shown([ask(1), REPLY])),
    Convicts("I5", "was shown", lambda: shown([ask(1), ask(1), REPLY, ask(2)])),
    Convicts("I5", "was shown", lambda: shown([ask(1), REPLY, "I th", ask(2)], before=broken_off())),
    Convicts(
        "I5",
        "is FAILED and did not halt its session",
        lambda: Scene().submit().claim().settle(outcome="failed").dead_letter().rest(halts=True),
    ),
    Convicts("I5", "while a halted its session", lambda: halted().claim("b").settle("b").rest(halts=True), "b"),
    Convicts("I5", "while a halted its session", claimed_by_the_commit_that_halts, "b"),
    Convicts(
        "I6",
        "was claimed (fence 2) while b of its session ran under fence 1",
        lambda: Scene().submit("b").submit("a").claim("b").claim("a").settle("b").settle("a"),
    ),
    Convicts("I6", "fence 1 was taken over", lambda: amended(taken_over(), "audit", ENDED, lease_before=200.0)),
    Convicts("I6", "run twice under fence 1", lambda: Scene().submit().claim().run(what="began").settle()),
    Convicts(
        "I9",
        "halts its session, and has a dead letter or is owed one",
        lambda: Scene().submit().claim().settle(outcome="failed").halt().dead_letter().rest(halts=True),
    ),
    Convicts(
        "I9", "its dead letter is still to be sent", lambda: halted().skip("a").claim("b").settle("b").rest(halts=True)
    ),
)

ACQUITTED: dict[str, Build] = {
    "the whole history": lambda: shown([ask(1), {"fence": 1, "turn": "b"}, ask(2)]),
    "all inputs of a merged turn": lambda: shown([ask(1), ask(3), REPLY, ask(2)], before=merged()),
    "nothing of a canceled turn": lambda: shown([ask(1), REPLY, ask(2)], before=broken_off()),
    "the last twenty messages of a long conversation": a_long_conversation,
    "a session that was halted and skipped": lambda: (
        halted().skip("a").dead_letter("a").claim("b").settle("b").rest(halts=True)
    ),
    "a session that was halted and retried": lambda: (
        halted().retry("a").claim("a").settle("a").claim("b").settle("b").rest(halts=True)
    ),
    "a turn that halts at rest": lambda: Scene().submit().claim().settle(outcome="failed").halt().rest(halts=True),
}


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


@each(ACQUITTED)
def test_the_checker_acquits(case: Build) -> None:
    assert_acquits(case)
