"""What becomes of a turn: I1 nothing lost, I2 one settlement, I3 one effect, I7 attempts, I8 crash loops, I18 transitions."""

from typing import Any

from tests.proof.checker.tables import Change, Said
from tests.proof.tests.checker.conviction import (
    CLAIMED,
    ENDED,
    INSERTED,
    Convicts,
    Made,
    amended,
    answered,
    dead,
    more,
    play,
    taken_over,
    without,
)
from tests.proof.tests.checker.scene import ECHO, Scene


def merged(times: int = 1, **claim: Any) -> Scene:
    scene = Scene().submit()
    for _ in range(times):
        scene.merge(content="and")
    return scene.claim(**claim).run().settle()


def is_reply(said: Said) -> bool:
    return said.role == "assistant"


def is_redrive(change: Change) -> bool:
    return change.before == "FAILED"


def canceled_first() -> Scene:
    return Scene().submit(canceled=True)


def replied(made: Made, **reply: Any) -> Made:
    return amended(made, "messages", is_reply, content=reply)


TWO_UNANSWERED = Scene().submit(outcome="unknown").submit("b", outcome="unknown").play("cancel a, cancel b")
RETRIED_AFTER_A_CRASH = play("submit, claim, take_over, settle a retried, cancel")
RETRIED_TOO_OFTEN = (
    Scene().submit(max_attempts=2).play("claim, settle a retried, claim, settle a retried, claim, settle")
)

CONVICTED = (
    Convicts("I1", "has two rows at rest", more(answered(), "turns")),
    Convicts("I1", "its row is gone", without(answered(), "turns")),
    Convicts("I1", "from anna and has no row", Scene().ask("submit", "a", session="s", content=ECHO)),
    Convicts("I1", "stands in s", amended(answered(), "history", session="other")),
    Convicts("I1", "still RUNNING at rest", play("submit, claim").rest(rested_at=None)),
    Convicts("I1", "was refused", Scene().submit(outcome="fail").cancel()),
    Convicts("I1", "no submit accounts for", without(TWO_UNANSWERED, "history", 1), "b"),
    Convicts("I1", 'accepted with the input "and" and does not have it', without(merged(), "messages", 1)),
    Convicts("I1", 'has the input "and" that no client was answered for', without(merged(2), "history", -1)),
    Convicts("I1", "has 2 inputs, of which its handler was given [1]", merged(inputs=1)),
    Convicts("I2", "ended a second time", more(answered(), "audit", n=9, at=200.0)),
    Convicts(
        "I2",
        "SUCCEEDED of generation 1 was changed to FAILED",
        more(answered(), "audit", before="SUCCEEDED", after="FAILED", fence_before=1),
    ),
    Convicts(
        "I2",
        "FAILED of generation 1 was changed to PENDING",
        amended(dead().redrive().cancel(), "audit", is_redrive, generation=1),
    ),
    Convicts("I2", "the row is ('FAILED'", amended(answered(), "turns", status="FAILED")),
    Convicts("I2", "no record", without(answered(), "audit")),
    Convicts(
        "I2", "turn.succeeded 2 times, and it happened 1", answered().play("log turn.succeeded, log turn.succeeded")
    ),
    Convicts("I2", "turn.snoozed 1 times, and it happened 0", answered().log("turn.snoozed")),
    Convicts("I2", "turn.superseded 1 times, and it happened 0", answered().log("turn.superseded")),
    Convicts("I3", "and no row", without(answered(), "turns")),
    Convicts("I3", "SUCCEEDED and has 2 replies", more(answered(), "messages", ordinal=2)),
    Convicts("I3", "SUCCEEDED and has 0 replies", without(answered(), "messages", -1)),
    Convicts("I3", "CANCELED and has 1 replies", more(play("submit, cancel"), "messages", ordinal=1, role="assistant")),
    Convicts("I3", "under fence 2 with the reply that fence 1 had made", replied(taken_over(), turn="a", fence=1)),
    Convicts("I3", "has the reply of turn b", replied(answered(), turn="b", fence=1)),
    Convicts("I3", "has 2 attempts that succeeded", more(answered(), "attempts", fence=2)),
    Convicts(
        "I3",
        "its attempt record says fence 1",
        amended(taken_over(), "attempts", lambda one: one.outcome == "succeeded", fence=1),
    ),
    Convicts(
        "I3",
        "whose handler never began",
        Scene().submit().claim(runs=False).play("settle, submit b, claim b, settle b"),
    ),
    Convicts("I7", "1 became 5 without a change", amended(answered(), "audit", ENDED, attempt_before=5)),
    Convicts(
        "I7",
        "was claimed as attempt 0 after 0 failures and 0 lost claims",
        amended(answered(), "audit", CLAIMED, attempt=0),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (1, 0, 0) to (1, 0, 0)",
        amended(play("submit, claim, settle a released, cancel"), "audit", ENDED, attempt=1),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (1, 0, 0) to (0, 1, 0)",
        amended(play("submit, claim, settle a retried, cancel"), "audit", ENDED, attempt=0),
    ),
    Convicts("I7", "RUNNING to RUNNING made (1, 0, 0) to (2, 0, 0)", amended(taken_over(), "audit", ENDED, crashes=0)),
    Convicts("I7", "tried again after 2 failures, of 2 allowed", RETRIED_TOO_OFTEN),
    Convicts("I7", "has 4 failures, of 3 allowed", amended(dead(), "audit", ENDED, failures=4)),
    Convicts(
        "I7",
        "FAILED to PENDING made (1, 1, 0) to (0, 1, 0)",
        amended(dead().redrive().cancel(), "audit", is_redrive, failures=1),
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made (2, 0, 1) to (2, 1, 1)",
        amended(
            RETRIED_AFTER_A_CRASH, "audit", lambda one: one.before == "RUNNING" and one.after == "PENDING", crashes=1
        ),
    ),
    Convicts("I7", "fence 1 was settled as SUCCEEDED and has no attempt record", without(answered(), "attempts")),
    Convicts("I7", "is recorded as failed", amended(answered(), "attempts", outcome="failed")),
    Convicts("I7", "ran as attempt 1 and is recorded as attempt 2", amended(answered(), "attempts", attempt=2)),
    Convicts("I7", "no record says that it was lost", without(taken_over(), "attempts", 0)),
    Convicts("I7", "fence 1 has two attempt records", more(answered(), "attempts")),
    Convicts("I7", "under fence 9, which no claim was given", more(answered(), "attempts", fence=9)),
    Convicts("I7", "as lost, and no worker took it over", amended(answered(), "attempts", outcome="lost")),
    Convicts("I7", "recorded as succeeded, and no change", amended(taken_over(), "attempts", 0, outcome="succeeded")),
    Convicts("I7", "the row counts (1, 0, 2)", amended(answered(), "turns", crashes=2)),
    Convicts(
        "I8", "was run again after 3 lost claims, of 3 allowed", play("submit, claim" + ", take_over" * 3 + ", settle")
    ),
    Convicts(
        "I8", "lost 4 claims in generation 1, of 3 allowed", play("submit, claim" + ", take_over" * 4 + ", settle")
    ),
    Convicts("I8", "crash loop after 1 lost claims, of 3", play("submit, claim, take_over a FAILED, dead_letter")),
    Convicts(
        "I18", "went from CANCELED to RUNNING", amended(answered(), "audit", ENDED, before="CANCELED", after="RUNNING")
    ),
    Convicts("I18", "went from nothing to RUNNING", amended(answered(), "audit", INSERTED, after="RUNNING")),
    Convicts("I18", "was left PENDING and goes on from RUNNING", without(answered(), "audit", 1)),
    Convicts("I18", "was born in generation 2", amended(answered(), "audit", INSERTED, generation=2)),
    Convicts("I18", "moved it from generation 1 to 2", amended(answered(), "audit", CLAIMED, generation=2)),
    Convicts("I18", "was changed from 1 to 4", amended(answered(), "audit", CLAIMED, seq=4)),
    Convicts("I18", "without a place in its session", amended(answered(), "audit", ENDED, seq=None)),
    Convicts("I18", "as CANCELED without a cancel", amended(canceled_first(), "audit", cancel_requested=False)),
    Convicts("I18", "as CANCELED with a seq", amended(canceled_first(), "audit", seq=1)),
)
