"""I19: what a handler was answered to be kept is kept, and what it reads is the newest. What is not durable may be gone."""

from typing import Any

from tests.proof.tests.checker.conviction import Convicts, Made, amended, more, without
from tests.proof.tests.checker.notebook import CITY, FACT, ITEM, Notebook


def book(*steps: str) -> Notebook:
    """Turn a runs, and does these steps."""
    return Notebook().play(", ".join(["submit, claim", *steps]))


def kept() -> Notebook:
    """Turn a has kept version 1 of the city, which is durable."""
    return book("keep")


def items(many: int) -> Notebook:
    """Turn a has kept so many versions of an item, which is not durable."""
    return book(*["keep a city item"] * many)


def turn_after_turn() -> Notebook:
    """Turn b has kept two versions; turn a runs."""
    return Notebook().play("submit b, submit a, claim b, keep b, keep b, settle b, claim a")


def convicts(words: str, made: Made, turn_id: str | None = "a") -> Convicts:
    return Convicts("I19", words, made.settle() if isinstance(made, Notebook) else made, turn_id)


def answer(words: str, op: str, **answer: Any) -> Convicts:
    """Turn a has kept the city, and makes a call on it that is answered so."""
    return convicts(words, kept().say(op, kind=FACT, key=CITY, **answer))


def written_into_another_session() -> Notebook:
    scene = kept()
    amended(scene.evidence, "memory_changes", session="r")
    return scene


def versions_that_go_back() -> Notebook:
    scene = book("keep, keep a mood")
    for kind in ("memory_changes", "memory_acts"):
        amended(scene.evidence, kind, 0, version=5)
    return scene


def never_made() -> Notebook:
    scene = kept()
    scene.evidence.memory_changes.clear()
    return scene


def at_rest() -> Made:
    return kept().settle().rest()


CONVICTED = (
    # --- durable
    convicts("read fact 'city' at version 0", turn_after_turn().look(None)),
    convicts("at version 1, and it had [2]", turn_after_turn().look(1)),
    convicts("which was not written", kept().look(1, value="Bergen")),
    convicts("found of kind fact the versions", kept().say("find", kind=FACT, found={})),
    convicts("when that claim did not stand", book("take_over, keep").under_fence(1, "memory_changes")),
    convicts("under fence 1 when that claim did not stand", book("settle, keep").rest()),
    convicts("which no claim was given", kept().under_fence(9, "memory_changes"), None),
    convicts("which was given in session s", written_into_another_session()),
    convicts("was kept as version 1, and it never was", never_made()),
    convicts("replaced version 1 of fact 'city', and expected 7", kept().keep(expected=7)),
    answer("got the answer not kept for fact 'city', which is durable", "set", outcome="not kept"),
    answer("is not as expected", "set", expected=1, outcome="conflict"),
    answer("was deleted, and it was not", "delete"),
    answer("there is no fact 'city', and there was", "delete", outcome="absent"),
    answer("its turn is another's, and its claim stood", "set", outcome="superseded"),
    convicts("cleared tag:old, and something with it is left", book().keep(tags=["old"]).say("clear", label="tag:old")),
    convicts("fact 'mood' got version 2 after version 5", versions_that_go_back(), None),
    convicts("fact 'city' was kept as version 1, and is gone", without(at_rest(), "memory_items"), None),
    convicts("written as version 1, and is version 0", amended(at_rest(), "memory_items", version=0), None),
    # --- not durable
    convicts("met version 1 after version 2 had been acknowledged (get", items(2).look(1, kind=ITEM)),
    convicts("(find of item 'city')", items(2).say("find", kind=ITEM, found={CITY: 1})),
    convicts("(set of item 'city')", items(2).keep(kind=ITEM, expected=1)),
    convicts("met version 1 after it had been deleted", items(1).forget(kind=ITEM).look(1, kind=ITEM)),
    convicts("and it was written as", items(1).look(1, kind=ITEM, value="Bergen")),
    convicts("no run of its session can have written", items(1).look(9, kind=ITEM, value={"by": "a", "fence": 7})),
    convicts(
        "made version 1 of item 'city', which another write had made",
        more(items(1).settle(), "memory_acts", at=900.0, until=901.0),
    ),
)
