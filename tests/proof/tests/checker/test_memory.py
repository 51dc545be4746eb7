"""I19: what a handler was told to be kept is kept, and what it reads is the newest. What is not durable may be gone."""

from dataclasses import replace
from typing import Any

from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import Build, Convicts, amended, assert_acquits, each, more, without
from tests.proof.tests.checker.notebook import FACT, ITEM, Notebook, claimed, ended

BY_FIRST_RUN = {"by": "a", "fence": 1, "n": 1}


def turn_after_turn() -> Notebook:
    """Turn b has kept two versions; turn a runs."""
    return claimed("b", "a").keep("b").keep("b").go_on()


def fact(op: str, **told: Any) -> dict[str, Any]:
    return {"op": op, "kind": FACT, "key": "city", **told}


def written_twice_for_a_lost_response() -> Evidence:
    book = claimed().keep()
    changes = book.scene.evidence.memory_changes
    changes.append(replace(changes[0], n=book.scene._next_number(), at=book.scene.at))
    return ended(book)


def written_into_another_session() -> Evidence:
    book = claimed().keep()
    amended(book.scene.evidence, "memory_changes", session="r")
    return ended(book)


def versions_that_go_back() -> Evidence:
    book = claimed().keep().keep(key="mood")
    for kind in ("memory_changes", "memory_acts"):
        records = getattr(book.scene.evidence, kind)
        records[0] = replace(records[0], version=5)
    return ended(book)


def never_made() -> Evidence:
    book = claimed().keep()
    book.scene.evidence.memory_changes.clear()
    return ended(book)


def convicts(words: str, build: Build, turn_id: str | None = "a") -> Convicts:
    return Convicts("I19", words, build, turn_id)


CASES = (
    # --- durable
    convicts("read fact 'city' as of version 0", lambda: ended(turn_after_turn().look(version=None))),
    convicts("as of version 1, and it had [2]", lambda: ended(turn_after_turn().look(version=1))),
    convicts("which was not written", lambda: ended(claimed().keep().look(version=1, value="Bergen"))),
    convicts("found of kind fact the versions", lambda: ended(claimed().keep().say("find", kind=FACT, found={}))),
    convicts(
        "was written under fence 1 when that claim did not stand",
        lambda: ended(claimed().take_over().keep().under_fence(1, "memory_changes")),
    ),
    convicts("when that claim did not stand", lambda: claimed().settle().keep().rest()),
    convicts("which no claim was given", lambda: ended(claimed().keep().under_fence(9, "memory_changes")), None),
    convicts("which was given in session s", written_into_another_session),
    convicts("was kept as version 1, and it never was", never_made),
    convicts(
        "was told not kept of fact 'city', which is durable",
        lambda: ended(claimed().say(**fact("set", outcome="not kept"))),
    ),
    convicts("replaced version 1 of fact 'city', and expected 7", lambda: ended(claimed().keep().keep(expected=7))),
    convicts("is not as expected", lambda: ended(claimed().keep().say(**fact("set", expected=1, outcome="conflict")))),
    convicts("was deleted, and it was not", lambda: ended(claimed().keep().say(**fact("delete")))),
    convicts(
        "there is no fact 'city', and there was",
        lambda: ended(claimed().keep().say(**fact("delete", outcome="absent"))),
    ),
    convicts(
        "cleared tag:old, and something with it is left",
        lambda: ended(claimed().keep(tags=["old"]).say("clear", label="tag:old")),
    ),
    convicts(
        "its turn is another's, and its claim stood",
        lambda: ended(claimed().say(**fact("set", outcome="superseded"))),
    ),
    convicts("fact 'mood' got version 2 after version 5", versions_that_go_back, None),
    convicts(
        "fact 'city' was kept as version 1, and is gone",
        lambda: without(ended(claimed().keep()), "memory_items"),
        None,
    ),
    convicts(
        "was last written as version 1, and is version 0",
        lambda: amended(ended(claimed().keep()), "memory_items", version=0),
        None,
    ),
    # --- not durable
    convicts(
        "met version 1 after version 2 had been acknowledged (get of item 'city')",
        lambda: ended(claimed().keep(kind=ITEM).keep(kind=ITEM).look(kind=ITEM, version=1)),
    ),
    convicts(
        "(find of item 'city')",
        lambda: ended(claimed().keep(kind=ITEM).keep(kind=ITEM).say("find", kind=ITEM, found={"city": 1})),
    ),
    convicts(
        "met version 1 after version 2 had been acknowledged (set of item 'city')",
        lambda: ended(claimed().keep(kind=ITEM).keep(kind=ITEM).keep(kind=ITEM, expected=1)),
    ),
    convicts(
        "met version 1 after it had been deleted",
        lambda: ended(claimed().keep(kind=ITEM).forget(kind=ITEM).look(kind=ITEM, version=1)),
    ),
    convicts(
        "and it was written as", lambda: ended(claimed().keep(kind=ITEM).look(kind=ITEM, version=1, value="Bergen"))
    ),
    convicts(
        "no run of its session can have written",
        lambda: ended(claimed().look(kind=ITEM, version=9, value={"by": "a", "fence": 7})),
    ),
    convicts(
        "made version 1 of item 'city', which another write had made",
        lambda: more(ended(claimed().keep(kind=ITEM)), "memory_acts", at=900.0, until=901.0),
    ),
)

ACQUITTED: dict[str, Build] = {
    "kept, and read by the next turn": lambda: ended(
        turn_after_turn().look(version=2).say("find", kind=FACT, found={"city": 2})
    ),
    "swapped, and refused": lambda: ended(
        claimed()
        .look(version=None)
        .keep(expected=0)
        .keep(expected=1)
        .say(**fact("set", expected=1, outcome="conflict"))
        .look(version=2)
    ),
    "deleted, and written again": lambda: ended(
        claimed()
        .keep()
        .forget()
        .look(version=None)
        .say(**fact("delete", outcome="absent"))
        .keep(expected=0)
        .look(version=3)
    ),
    "written twice for a lost response": written_twice_for_a_lost_response,
    "written by an attempt that was lost": lambda: ended(
        claimed().keep(outcome="unknown").take_over().look(version=1, value=BY_FIRST_RUN)
    ),
    "overtaken, and shown what came later": lambda: ended(claimed().take_over().keep().look(version=1).under_fence(1)),
    "removed long after its deletion": lambda: without(ended(claimed().keep().forget()), "memory_items"),
    "not durable: gone": lambda: ended(
        claimed().keep(kind=ITEM).look(kind=ITEM, version=None).say("find", kind=ITEM, found={})
    ),
    # The response was lost; or the command was delayed, and came in after a later one.
    "not durable: kept although the handler was told otherwise": lambda: ended(
        claimed().keep(kind=ITEM, outcome="not kept").keep(kind=ITEM).look(kind=ITEM, version=3, value=BY_FIRST_RUN)
    ),
}


@each(CASES)
def test_the_checker_convicts(case: Convicts) -> None:
    case.check()


@each(ACQUITTED)
def test_the_checker_acquits(case: Build) -> None:
    assert_acquits(case)
