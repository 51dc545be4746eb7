"""What becomes of a turn: I1 nothing lost, I2 one settlement, I3 one effect, I7 attempts, I8 crash loops, I18 transitions."""

from tests.proof.checker import check
from tests.proof.tests.checker.conviction import (
    CLAIMED,
    ENDED,
    INSERTED,
    Convicts,
    amended,
    answered,
    claims_of,
    dead,
    each,
    more,
    taken_over,
    without,
)
from tests.proof.tests.checker.scene import ECHO, Scene


def settled(outcome: str) -> Scene:
    return Scene().submit().claim().settle(outcome=outcome)


def merged(times: int = 1, **claim: int) -> Scene:
    scene = Scene().submit()
    for _ in range(times):
        scene.merge(content="and")
    return scene.claim(**claim).run().settle()


CASES = (
    Convicts("I1", "has no row", lambda: Scene().ask("submit", "a", session="s", content=ECHO)),
    Convicts("I1", "its row is gone", lambda: without(answered(), "turns")),
    Convicts("I1", "still RUNNING at rest", lambda: Scene().submit().claim().rest(rested_at=None)),
    Convicts(
        "I1",
        "no submit accounts for",
        lambda: without(
            Scene().submit(outcome="unknown").submit("b", outcome="unknown").cancel("a").cancel("b"), "history", 1
        ),
        "b",
    ),
    Convicts("I1", "was refused", lambda: Scene().submit(outcome="fail").cancel()),
    Convicts(
        "I1", "no submit accounts for", lambda: without(Scene().submit("b").submit().cancel().cancel("b"), "history", 1)
    ),
    Convicts("I1", "stands in s", lambda: amended(answered(), "history", session="other")),
    Convicts("I1", 'was told of the input "and" and does not have it', lambda: without(merged(), "messages", 1)),
    Convicts("I1", 'has the input "and" that no client was told of', lambda: without(merged(2), "history", -1)),
    Convicts("I1", "has 2 inputs, of which its handler was given [1]", lambda: merged(inputs=1)),
    Convicts("I2", "ended a second time", lambda: more(answered(), "audit", n=9, at=200.0)),
    Convicts(
        "I2",
        "SUCCEEDED of generation 1 was changed to FAILED",
        lambda: more(answered(), "audit", before="SUCCEEDED", after="FAILED", fence_before=1),
    ),
    Convicts(
        "I2",
        "FAILED of generation 1 was changed to PENDING",
        lambda: amended(dead().redrive().cancel(), "audit", lambda one: one.before == "FAILED", generation=1),
    ),
    Convicts("I2", "the row is ('FAILED'", lambda: amended(answered(), "turns", status="FAILED")),
    Convicts("I2", "no record", lambda: without(answered(), "audit")),
    Convicts(
        "I2",
        "logged turn.succeeded 2 times, and it happened 1 times",
        lambda: answered().log("turn.succeeded").log("turn.succeeded"),
    ),
    Convicts("I2", "turn.superseded 1 times, and it happened 0 times", lambda: answered().log("turn.superseded")),
    Convicts("I3", "SUCCEEDED and has 2 replies", lambda: more(answered(), "messages", ordinal=2)),
    Convicts("I3", "SUCCEEDED and has 0 replies", lambda: without(answered(), "messages", -1)),
    Convicts(
        "I3",
        "CANCELED and has 1 replies",
        lambda: more(Scene().submit().cancel(), "messages", ordinal=1, role="assistant"),
    ),
    Convicts(
        "I3",
        "settled under fence 2 with the reply that fence 1 had made",
        lambda: amended(
            taken_over(), "messages", lambda one: one.role == "assistant", content={"turn": "a", "fence": 1}
        ),
    ),
    Convicts(
        "I3",
        "has the reply of turn b",
        lambda: amended(answered(), "messages", lambda one: one.role == "assistant", content={"turn": "b", "fence": 1}),
    ),
    Convicts("I3", "has 2 attempts that succeeded", lambda: more(answered(), "attempts", fence=2)),
    Convicts(
        "I3",
        "its attempt record says fence 1",
        lambda: amended(taken_over(), "attempts", lambda one: one.outcome == "succeeded", fence=1),
    ),
    Convicts(
        "I3",
        "whose handler never began",
        lambda: Scene().submit().claim(runs=False).settle().submit("b").claim("b").settle("b"),
    ),
    Convicts(
        "I7",
        "was claimed as attempt 0 after 0 failures and 0 lost claims",
        lambda: amended(answered(), "audit", CLAIMED, attempt=0),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (1, 0, 0) to (1, 0, 0)",
        lambda: amended(settled("released").cancel(), "audit", ENDED, attempt=1),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (1, 0, 0) to (0, 1, 0)",
        lambda: amended(settled("retried").cancel(), "audit", ENDED, attempt=0),
    ),
    Convicts(
        "I7", "RUNNING to RUNNING made (1, 0, 0) to (2, 0, 0)", lambda: amended(taken_over(), "audit", ENDED, crashes=0)
    ),
    Convicts(
        "I7",
        "tried again after 2 failures, of 2 allowed",
        lambda: (
            Scene()
            .submit(max_attempts=2)
            .claim()
            .settle(outcome="retried")
            .claim()
            .settle(outcome="retried")
            .claim()
            .settle()
        ),
    ),
    Convicts(
        "I7",
        "FAILED to PENDING made (1, 1, 0) to (0, 1, 0)",
        lambda: amended(dead().redrive().cancel(), "audit", lambda one: one.before == "FAILED", failures=1),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (2, 0, 1) to (2, 1, 1)",
        lambda: amended(
            Scene().submit().claim().take_over().settle(outcome="retried").cancel(),
            "audit",
            lambda one: (one.before, one.after) == ("RUNNING", "PENDING"),
            crashes=1,
        ),
    ),
    Convicts(
        "I7", "fence 1 was settled as SUCCEEDED and has no attempt record", lambda: without(answered(), "attempts")
    ),
    Convicts("I7", "is recorded as failed", lambda: amended(answered(), "attempts", outcome="failed")),
    Convicts("I7", "ran as attempt 1 and is recorded as attempt 2", lambda: amended(answered(), "attempts", attempt=2)),
    Convicts("I7", "no record says that it was lost", lambda: without(taken_over(), "attempts", 0)),
    Convicts(
        "I7", "under fence 9, which no claim was given", lambda: more(answered(), "attempts", fence=9, outcome="lost")
    ),
    Convicts("I7", "the row counts (1, 0, 2)", lambda: amended(answered(), "turns", crashes=2)),
    Convicts(
        "I8",
        "was run again after 3 lost claims, of 3 allowed",
        lambda: Scene().submit().claim().take_over().take_over().take_over().settle(),
    ),
    Convicts(
        "I8",
        "lost 4 claims in generation 1, of 3 allowed",
        lambda: Scene().submit().claim().take_over().take_over().take_over().take_over().settle(),
    ),
    Convicts(
        "I8",
        "crash loop after 1 lost claims, of 3 allowed",
        lambda: Scene().submit().claim().take_over(status="FAILED").dead_letter(),
    ),
    Convicts(
        "I18",
        "went from CANCELED to RUNNING",
        lambda: amended(answered(), "audit", ENDED, before="CANCELED", after="RUNNING"),
    ),
    Convicts("I18", "went from nothing to RUNNING", lambda: amended(answered(), "audit", INSERTED, after="RUNNING")),
    Convicts("I18", "was left PENDING and goes on from RUNNING", lambda: without(answered(), "audit", 1)),
    Convicts("I18", "moved it from generation 1 to 2", lambda: amended(answered(), "audit", CLAIMED, generation=2)),
    Convicts("I18", "was changed from 1 to 4", lambda: amended(answered(), "audit", CLAIMED, seq=4)),
    Convicts(
        "I18",
        "was inserted as CANCELED without a cancel",
        lambda: amended(Scene().submit(canceled=True), "audit", cancel_requested=False),
    ),
    Convicts(
        "I18", "was inserted as CANCELED with a seq", lambda: amended(Scene().submit(canceled=True), "audit", seq=1)
    ),
)


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


def test_crashes_before_a_run_that_ended_by_itself_do_not_count() -> None:
    scene = Scene().submit().claim().take_over().take_over().settle(outcome="snoozed")
    evidence = scene.claim().take_over().take_over().settle().rest()

    assert claims_of(evidence, "I8") == []


def test_a_join_gives_its_attempt_back() -> None:
    assert check(Scene().submit().claim().run().settle(outcome="joined").claim().run().settle().rest()) == []
