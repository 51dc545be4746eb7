"""Children, joins, recorded values and compensations: I1, I3, I4, I7, I15, I16."""

from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import Build, Convicts, amended, assert_acquits, claims_of, each
from tests.proof.tests.checker.kinship import Kinship, blamed, said_by, told

BOTH = ["one", "two"]


def at_work(policy: str = "all") -> Kinship:
    """A parent that has started two children, and waits."""
    scene = Kinship().submit("parent", session="p").claim("parent")
    return scene.start("one", key="#1").start("two", key="#2").join("parent", BOTH, policy)


def ended() -> Kinship:
    """The same, after both children were answered."""
    return at_work().answer("one").answer("two").wake()


def outputs(scene: Kinship, *children: str) -> list[object]:
    return [said_by(scene, child) for child in children]


def answered() -> Evidence:
    scene = ended()
    return scene.answer("parent", **told(BOTH, outputs(scene, *BOTH))).rest()


def told_of(scene: Kinship, *children: str | None, joined: list[str] = BOTH, policy: str = "all") -> Kinship:
    """The parent says that it joined these children, and was given the replies of those."""
    return scene.answer("parent", **told(joined, [one and said_by(scene, one) for one in children], policy))


def failed_and_redriven() -> Kinship:
    scene = at_work().fail("one").wake().fail("parent", error_class="ChildFailedError")
    return scene.dead_letter("one").dead_letter("parent").redrive("parent").claim("parent")


def redriven_family() -> Evidence:
    scene = failed_and_redriven().start("another", key="#1").join("parent", ["another", "two"])
    scene.answer("two").answer("another").wake()
    return told_of(scene, "another", "two", joined=["another", "two"]).rest()


def any_gives_up() -> Evidence:
    scene = at_work("any").fail("one").cancel("two").dead_letter("one").wake()
    evidence = scene.answer("parent", **blamed(BOTH, "two", status="CANCELED", error_class=None, policy="any")).rest()
    evidence.history = [call for call in evidence.history if call.turn_id == "parent"]
    return evidence


# --- values that are recorded once


def once() -> Kinship:
    return Kinship().submit().claim().once("a", "k", "1")


def deed() -> Kinship:
    """Done, and not recorded."""
    return Kinship().submit().claim().note("a", "did", "k", "1")


def again(scene: Kinship) -> Kinship:
    return scene.settle(outcome="retried").claim()


def recorded_after_a_takeover() -> Evidence:
    scene = deed().take_over().wait(1.0).record("a", "k", "1").settle()
    return amended(scene.evidence, "values", fence=1) and scene.rest()


# --- compensations


def failed() -> Kinship:
    return Kinship().submit().claim().once("a", "k", "1").settle("a", "failed")


def undone() -> Kinship:
    scene = failed().compensate("a").dead_letter("a").claim("undo").run("undo").settle("undo")
    return scene.reply("undo", undid=scene.turns["undo"].content)


def undone_again() -> Evidence:
    scene = undone().redrive("a").claim("a").settle("a", "failed").compensate("a", "again")
    return scene.dead_letter("a").claim("again").settle("again").rest_of_family()


def crash_loop() -> Evidence:
    scene = Kinship().submit().claim().take_over().take_over().take_over("a", "FAILED")
    return scene.compensate("a").dead_letter("a").claim("undo").settle("undo").rest_of_family()


CASES = (
    Convicts(
        "I1",
        "not there",
        lambda: amended(answered(), "turns", lambda row: row.turn_id == "one", parent="nobody"),
        "one",
    ),
    Convicts(
        "I3",
        "started 2 children by call #1, and is in generation 1",
        lambda: amended(answered(), "turns", lambda row: row.turn_id == "two", child_key="#1"),
        "parent",
    ),
    Convicts(
        "I3",
        "started 2 children by call #1 in generation 2",
        lambda: failed_and_redriven().wait(6.0).start("twin", key="#1").start("triplet", key="#1"),
        "parent",
    ),
    Convicts(
        "I4",
        "was started by parent, which had not been RUNNING",
        lambda: at_work().wait(6.0).start("late", key="#3"),
        "late",
    ),
    Convicts(
        "I3",
        "was settled before its child two had answered",
        lambda: told_of(at_work().answer("one").wake(), "one", None).answer("two"),
        "parent",
    ),
    Convicts("I3", "was told that child one answered", lambda: told_of(ended(), "two", "one"), "parent"),
    Convicts(
        "I3",
        "was told that child two is FAILED (Boom), which it was not",
        lambda: at_work().answer("one").wake().answer("parent", **blamed(BOTH, "two")).answer("two"),
        "parent",
    ),
    Convicts(
        "I3",
        "gave up although its children two had not ended",
        lambda: at_work("any").fail("one").wake().answer("parent", **blamed(BOTH, "one", policy="any")).answer("two"),
        "parent",
    ),
    Convicts(
        "I3",
        "was told nothing of child one, which had answered",
        lambda: told_of(at_work("any").answer("one").answer("two").wait(6.0).wake(), None, "two", policy="any"),
        "parent",
    ),
    Convicts(
        "I3", "was told the answer of none", lambda: told_of(at_work("any").wake(), None, None, policy="any"), "parent"
    ),
    Convicts("I3", "joined 1 children, and has started 2", lambda: told_of(ended(), "one", joined=["one"]), "parent"),
    Convicts(
        "I3",
        "joined other, which it has not started",
        lambda: told_of(ended(), "one", None, joined=["one", "other"]),
        "parent",
    ),
    Convicts(
        "I3",
        "no child of it had failed",
        lambda: at_work().answer("one").wake().fail("parent", error_class="ChildFailedError").answer("two"),
        "parent",
    ),
    Convicts(
        "I7",
        "RUNNING to PENDING made",
        lambda: amended(
            answered(),
            "audit",
            lambda one: (one.turn_id, one.before, one.after) == ("parent", "RUNNING", "PENDING"),
            attempt=1,
        ),
        "parent",
    ),
    Convicts(
        "I15",
        "waits at rest for 2 children, which have all ended",
        lambda: at_work().answer("one").answer("two").rest(rested_at=None),
        "parent",
    ),
    Convicts(
        "I16",
        "was claimed under fence 3 while it waited for 2 children",
        lambda: at_work().answer("one").claim("parent").settle("parent", "joined").wake(),
        "parent",
    ),
    Convicts(
        "I3",
        "was given '1' for k under fence 1, which is not recorded",
        lambda: deed().note("a", "got", "k", "1").settle(),
    ),
    Convicts(
        "I3",
        "was given '2' for k under fence 2, and recorded is '1'",
        lambda: again(once()).note("a", "got", "k", "2").settle(),
    ),
    Convicts(
        "I3",
        "did k again under fence 2, after its value had been given",
        lambda: again(once()).note("a", "did", "k", "2").note("a", "got", "k", "1").settle(),
    ),
    Convicts(
        "I3",
        "has '2' recorded for k under fence 1, which made ['1']",
        lambda: deed().record("a", "k", "2").note("a", "got", "k", "2").settle(),
    ),
    Convicts("I3", "answered with '2' for k", lambda: once().settle().reply("a", once={"k": "2"})),
    Convicts("I4", "k was recorded under fence 1, after fence 2 had begun", recorded_after_a_takeover),
    Convicts(
        "I1", "FAILED in generation 1, and that commit made no", lambda: failed().dead_letter("a").rest_of_family()
    ),
    Convicts(
        "I1",
        "that commit made no compensation",
        lambda: amended(
            undone().rest_of_family(), "audit", lambda one: one.turn_id == "undo" and one.before is None, txid=999
        ),
    ),
    Convicts(
        "I3",
        "has 2 compensations for generation 1",
        lambda: failed().compensate("a").compensate("a", "undo-twice").rest_of_family(),
    ),
    Convicts(
        "I3",
        "has 1 compensations and finally failed 0 times",
        lambda: Kinship().submit().claim().settle().compensate("a").rest_of_family(),
    ),
    Convicts(
        "I3",
        "is a compensation and has one",
        lambda: (
            failed()
            .compensate("a")
            .claim("undo")
            .settle("undo", "failed")
            .compensate("undo", "undo-undo")
            .rest_of_family()
        ),
        "undo",
    ),
    Convicts(
        "I3",
        "was told {'error_class': 'Other'}",
        lambda: failed().compensate("a", error_class="Other").rest_of_family(),
        "undo",
    ),
    Convicts("I3", "was told the inputs []", lambda: failed().compensate("a", inputs=[]).rest_of_family(), "undo"),
    Convicts("I3", "was told '2' for k", lambda: failed().compensate("a", values={"k": "2"}).rest_of_family(), "undo"),
    Convicts(
        "I3",
        "was not told what is recorded for k",
        lambda: failed().compensate("a", values={}).rest_of_family(),
        "undo",
    ),
    Convicts(
        "I3",
        "was given {'turn_id': 'b'}",
        lambda: undone().reply("undo", undid={"turn_id": "b"}).rest_of_family(),
        "undo",
    ),
)

ACQUITTED: dict[str, Build] = {
    "a family": answered,
    "a parent that caught a child's failure": lambda: (
        at_work().fail("one").wake().dead_letter("one").answer("parent", **blamed(BOTH, "one")).answer("two")
    ),
    "a parent that failed with its child, and its redrive": redriven_family,
    "any with one answer": lambda: told_of(at_work("any").answer("two").wake(), None, "two", policy="any").answer(
        "one"
    ),
    "any without an answer": any_gives_up,
    "a deed repeated because its worker died before the record": lambda: (
        deed().take_over().once("a", "k", "2").settle().reply("a", once={"k": "2"})
    ),
    "a value that only the next run was given": lambda: (
        deed()
        .record("a", "k", "1")
        .take_over()
        .note("a", "did", "k", "2")
        .note("a", "got", "k", "1")
        .settle()
        .reply("a", once={"k": "1"})
    ),
    "a compensated failure": lambda: undone().rest_of_family(),
    "a redriven turn that fails again is compensated again": undone_again,
    "a compensated crash loop": crash_loop,
}


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


@each(ACQUITTED)
def test_the_checker_acquits(case: Build) -> None:
    assert_acquits(case)


def test_a_parent_may_run_at_its_expiry() -> None:
    scene = at_work().wait(600.0).fail("parent", error_class="expired")

    assert claims_of(scene.rest(), "I16", "parent") == []
