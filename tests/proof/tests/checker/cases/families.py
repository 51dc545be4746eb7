"""Children, joins, recorded values and compensations: I1, I3, I4, I7, I15, I16."""

from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.tables import Change, Row
from tests.proof.tests.checker.conviction import Convicts, Made, amended
from tests.proof.tests.checker.kinship import Kinship, blamed, joined, reply_of

BOTH = ["one", "two"]


def at_work(policy: str = "all") -> Kinship:
    """A parent that has started two children, and waits."""
    scene = Kinship().submit("parent", session="p").claim("parent")
    return scene.start("one", key="#1").start("two", key="#2").join("parent", BOTH, policy)


def ended(policy: str = "all") -> Kinship:
    """The same, after both children were answered."""
    return at_work(policy).play("answer one, answer two, wake")


def answers(scene: Kinship, *children: str | None, of: list[str] = BOTH, policy: str = "all") -> Kinship:
    """The parent says that it joined children, and was given the replies of these."""
    return scene.answer("parent", **joined(of, [one and reply_of(scene, one) for one in children], policy))


def answered() -> Evidence:
    return answers(ended(), *BOTH).rest()


def failed_and_redriven() -> Kinship:
    scene = at_work().play("fail one, wake, fail parent ChildFailedError")
    return scene.play("dead_letter one, dead_letter parent, redrive parent, claim parent")


def row_of(turn_id: str, **changed: object) -> Evidence:
    def is_it(row: Row) -> bool:
        return row.turn_id == turn_id

    return amended(answered(), "turns", is_it, **changed)


def is_join(change: Change) -> bool:
    return (change.turn_id, change.before, change.after) == ("parent", "RUNNING", "PENDING")


# --- values that are recorded once


def deed() -> Kinship:
    """Done, and not recorded."""
    return Kinship().play("submit, claim, note a did k 1")


def again() -> Kinship:
    """Done and recorded, and then tried again."""
    return Kinship().play("submit, claim, once a k 1, settle a retried, claim")


# --- compensations


def failed() -> Kinship:
    return Kinship().play("submit, claim, once a k 1, settle a failed")


def undone() -> Kinship:
    scene = failed().play("compensate a, dead_letter a, claim undo, run undo, settle undo")
    return scene.reply("undo", undid=scene.turns["undo"].content)


def misinformed(words: str, **given: Any) -> Convicts:
    return Convicts("I3", words, failed().compensate("a", **given).rest_compensated(), "undo")


def parent_convicted(words: str, made: Made) -> Convicts:
    return Convicts("I3", words, made, "parent")


BLAMED_TOO_SOON = at_work().play("answer one, wake").answer("parent", **blamed(BOTH, "two")).answer("two")
GIVEN_UP_TOO_SOON = at_work("any").play("fail one, wake").answer("parent", **blamed(BOTH, "one", policy="any"))
GIVEN_UP_IN_VAIN = at_work("any").play("fail one, answer two, wait 6, wake")
IGNORED = at_work("any").play("answer one, answer two, wait 6, wake")

CONVICTED = (
    Convicts("I1", "not there", row_of("one", parent="elsewhere"), "one"),
    parent_convicted("started 2 children by call #1, and is in generation 1", row_of("two", child_key="#1")),
    parent_convicted(
        "started 2 children by call #1 in generation 2",
        failed_and_redriven().wait(6).start("twin", key="#1").start("triplet", key="#1"),
    ),
    Convicts("I4", "by parent, which had not been RUNNING", at_work().wait(6).start("late", key="#3"), "late"),
    parent_convicted(
        "was settled before its child two had answered",
        answers(at_work().play("answer one, wake"), "one", None).answer("two"),
    ),
    parent_convicted("of child one, and its reply is", answers(ended(), "two", "one")),
    parent_convicted("given child two as FAILED (Boom), which it was not", BLAMED_TOO_SOON),
    parent_convicted("gave up although its children two had not ended", GIVEN_UP_TOO_SOON.answer("two")),
    parent_convicted(
        "gave up although its children two had answered",
        GIVEN_UP_IN_VAIN.answer("parent", **blamed(BOTH, "one", policy="any")),
    ),
    parent_convicted("given nothing of child one, which had answered", answers(IGNORED, None, "two", policy="any")),
    parent_convicted("the answer of none", answers(at_work("any").wake(), None, None, policy="any")),
    parent_convicted("joined 1 children, and has started 2", answers(ended(), "one", of=["one"])),
    parent_convicted("joined other, which it has not started", answers(ended(), "one", None, of=["one", "other"])),
    parent_convicted(
        "no child of it had failed", at_work().play("answer one, wake, fail parent ChildFailedError, answer two")
    ),
    Convicts("I7", "RUNNING to PENDING made", amended(answered(), "audit", is_join, attempt=1), "parent"),
    Convicts(
        "I15",
        "waits at rest for 2 children, which have all ended",
        at_work().play("answer one, answer two").rest(rested_at=None),
        "parent",
    ),
    Convicts(
        "I16",
        "was claimed under fence 3 while it waited for 2 children",
        at_work().play("answer one, claim parent, settle parent joined, wake"),
        "parent",
    ),
    Convicts("I3", "was given '1' for k under fence 1, which is not recorded", deed().play("note a got k 1, settle")),
    Convicts("I3", "was given '2' for k under fence 2, and recorded is '1'", again().play("note a got k 2, settle")),
    Convicts("I3", "did k again under fence 2", again().play("note a did k 2, note a got k 1, settle")),
    Convicts(
        "I3",
        "has '2' recorded for k under fence 1, which made ['1']",
        deed().play("record a k 2, note a got k 2, settle"),
    ),
    Convicts("I3", "answered with '2' for k", again().settle().reply("a", once={"k": "2"})),
    Convicts(
        "I4",
        "k was recorded under fence 1, after fence 2 had begun",
        amended(deed().play("take_over, wait 1, record a k 1, settle"), "values", fence=1),
    ),
    Convicts("I1", "that commit made no compensation", failed().dead_letter("a").rest_compensated()),
    Convicts(
        "I3",
        "has 2 compensations for generation 1",
        failed().play("compensate a, compensate a twice").rest_compensated(),
    ),
    Convicts(
        "I3",
        "has 1 compensations and finally failed 0 times",
        Kinship().play("submit, claim, settle, compensate a").rest_compensated(),
    ),
    Convicts(
        "I3",
        "is a compensation and has one",
        failed().play("compensate a, claim undo, settle undo failed, compensate undo undo-undo").rest_compensated(),
        "undo",
    ),
    misinformed("its input says {'error_class': 'Other'}", error_class="Other"),
    misinformed("was given the inputs []", inputs=[]),
    misinformed("was given '2' for k", values={"k": "2"}),
    misinformed("was not given what is recorded for k", values={}),
    Convicts("I3", "got {'turn_id': 'b'}", undone().reply("undo", undid={"turn_id": "b"}).rest_compensated(), "undo"),
)
