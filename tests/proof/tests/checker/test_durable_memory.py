"""I19, durable: what a handler was told to be kept is kept, and what it reads is what was kept."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import amend, assert_convicts
from tests.proof.tests.checker.notebook import FACT, Notebook, under_fence
from tests.proof.tests.checker.scene import Scene


def claimed(*turn_ids: str) -> Notebook:
    """The first of these turns runs."""
    scene = Scene()
    for turn_id in turn_ids or ("a",):
        scene.submit(turn_id)
    return Notebook(scene.claim(turn_ids[0] if turn_ids else "a"))


def ended(book: Notebook) -> Evidence:
    book.scene.settle()
    return book.rest()


def kept_and_read_by_the_next_turn() -> Evidence:
    book = claimed("b", "a")
    version = book.keep("b")
    book.scene.settle("b").claim("a")
    book.look("a", version=version).say("find", kind=FACT, found={"city": version})
    return ended(book)


def swapped_and_refused() -> Evidence:
    book = claimed()
    first = book.look(version=None).keep(expected=0)
    second = book.keep(expected=first)
    book.say("set", kind=FACT, key="city", expected=first, outcome="conflict")
    book.say("set", kind=FACT, key="city", expected=0, outcome="conflict").look(version=second)
    return ended(book)


def deleted_and_written_again() -> Evidence:
    book = claimed()
    book.keep()
    book.forget().look(version=None).say("delete", kind=FACT, key="city", outcome="absent")
    book.look(version=book.keep(expected=0))
    return ended(book)


def cleared_by_a_tag() -> Evidence:
    book = claimed()
    book.keep(tags=["old"])
    book.forget()
    return ended(book.say("clear", label="tag:old"))


def written_twice_for_a_lost_answer() -> Evidence:
    book = claimed()
    book.keep()
    changes = book.scene.evidence.memory_changes
    changes.append(replace(changes[0], n=book.scene._next_number(), at=book.scene.at))
    return ended(book)


def written_by_an_attempt_that_was_lost() -> Evidence:
    """Nobody was told, and it was done."""
    book = claimed()
    version = book.keep(outcome="unknown")
    book.scene.take_over()
    book.scene.wait(0.01)
    return ended(book.look(version=version, value={"by": "a", "fence": 1, "n": 1}))


def overtaken_and_told_so() -> Evidence:
    book = claimed()
    book.scene.take_over()
    book.say("set", kind=FACT, key="city", outcome="superseded")
    under_fence(book.scene.evidence.memory_acts, 1)
    return ended(book)


def overtaken_and_shown_what_came_later() -> Evidence:
    book = claimed()
    book.scene.take_over()
    book.look(version=book.keep())
    under_fence(book.scene.evidence.memory_acts, 1)
    return ended(book)


def dropped_long_after_it_was_deleted() -> Evidence:
    book = claimed()
    book.keep()
    book.forget()
    evidence = ended(book)
    evidence.memory_items.clear()
    return evidence


@pytest.mark.parametrize(
    "story",
    [
        kept_and_read_by_the_next_turn,
        swapped_and_refused,
        deleted_and_written_again,
        cleared_by_a_tag,
        written_twice_for_a_lost_answer,
        written_by_an_attempt_that_was_lost,
        overtaken_and_told_so,
        overtaken_and_shown_what_came_later,
        dropped_long_after_it_was_deleted,
    ],
)
def test_convicts_nobody(story: Callable[[], Evidence]) -> None:
    assert check(story()) == []


@pytest.mark.parametrize(
    ("shown", "words"),
    [(None, "read fact 'city' as of version 0"), (1, "as of version 1, and it had [2]"), (3, "as of version 3")],
)
def test_i19_a_handler_that_is_not_shown_what_the_turn_before_it_kept(shown: int | None, words: str) -> None:
    book = claimed("b", "a")
    book.keep("b")
    book.keep("b")
    book.scene.settle("b").claim("a")

    assert_convicts(ended(book.look("a", version=shown)), "I19", words)


def test_i19_a_handler_that_is_not_shown_what_it_has_written_itself() -> None:
    book = claimed()
    first = book.keep()
    book.keep()

    assert_convicts(ended(book.look(version=first)), "I19", "as of version 1, and it had [2]")


def test_i19_another_value_than_was_written() -> None:
    book = claimed()
    version = book.keep()

    assert_convicts(ended(book.look(version=version, value="Bergen")), "I19", "which was not written")


@pytest.mark.parametrize("found", [{}, {"city": 7}, {"city": 1, "mood": 2}])
def test_i19_a_search_that_finds_other_items_than_there_are(found: dict[str, int]) -> None:
    book = claimed()
    book.keep()

    assert_convicts(ended(book.say("find", kind=FACT, found=found)), "I19", "found of kind fact the versions")


def test_i19_a_write_under_a_fence_that_was_overtaken() -> None:
    book = claimed()
    book.scene.take_over()
    book.keep()
    under_fence(book.scene.evidence.memory_changes, 1)

    assert_convicts(ended(book), "I19", "was written under fence 1 when that claim did not stand")


def test_i19_a_write_after_the_turn_was_settled() -> None:
    book = claimed()
    book.scene.settle()
    book.keep()

    assert_convicts(book.rest(), "I19", "when that claim did not stand")


def test_i19_a_write_under_a_fence_that_nobody_gave() -> None:
    book = claimed()
    book.keep()
    under_fence(book.scene.evidence.memory_changes, 9)

    assert_convicts(ended(book), "I19", "which no claim was given", turn_id=None)


def test_i19_a_write_into_another_session() -> None:
    book = claimed()
    book.keep()
    [change] = book.scene.evidence.memory_changes
    book.scene.evidence.memory_changes[:] = [replace(change, session="r")]

    assert_convicts(ended(book), "I19", "which was given in session s")


def test_i19_a_write_that_was_acknowledged_and_never_made() -> None:
    book = claimed()
    book.keep()
    book.scene.evidence.memory_changes.clear()

    assert_convicts(ended(book), "I19", "was kept as version 1, and it never was")


def test_i19_a_durable_write_that_was_not_kept() -> None:
    book = claimed().say("set", kind=FACT, key="city", outcome="not kept")

    assert_convicts(ended(book), "I19", "was told not kept of fact 'city', which is durable")


@pytest.mark.parametrize("expected", [0, 7])
def test_i19_a_swap_that_replaced_another_version_than_expected(expected: int) -> None:
    book = claimed()
    book.keep()
    book.keep(expected=expected)

    assert_convicts(ended(book), "I19", f"replaced version 1 of fact 'city', and expected {expected}")


@pytest.mark.parametrize("expected", [1, None])
def test_i19_a_swap_that_was_refused_though_the_version_was_right(expected: int | None) -> None:
    book = claimed()
    book.keep()
    book.say("set", kind=FACT, key="city", expected=expected, outcome="conflict")

    assert_convicts(ended(book), "I19", "is not as expected")


def test_i19_a_deletion_that_was_acknowledged_and_never_made() -> None:
    book = claimed()
    book.keep()

    assert_convicts(ended(book.say("delete", kind=FACT, key="city")), "I19", "was deleted, and it was not")


def test_i19_a_deletion_that_did_not_find_what_was_there() -> None:
    book = claimed()
    book.keep()
    book.say("delete", kind=FACT, key="city", outcome="absent")

    assert_convicts(ended(book), "I19", "there is no fact 'city', and there was")


def test_i19_an_invalidation_that_left_something() -> None:
    book = claimed()
    book.keep(tags=["old"])

    assert_convicts(ended(book.say("clear", label="tag:old")), "I19", "cleared tag:old, and something with it is left")


def test_i19_a_run_that_was_sent_away_while_its_claim_stood() -> None:
    book = claimed().say("set", kind=FACT, key="city", outcome="superseded")

    assert_convicts(ended(book), "I19", "its turn is another's, and its claim stood")


def test_i19_versions_that_go_back() -> None:
    book = claimed()
    book.keep()
    book.keep(key="mood")
    amend(book.scene.evidence.memory_changes, lambda change: change.key == "city", version=5)
    amend(book.scene.evidence.memory_acts, lambda act: act.key == "city", version=5)

    assert_convicts(ended(book), "I19", "fact 'mood' got version 2 after version 5", turn_id=None)


def test_i19_an_item_that_is_gone_at_rest() -> None:
    book = claimed()
    book.keep()
    evidence = ended(book)
    evidence.memory_items.clear()

    assert_convicts(evidence, "I19", "fact 'city' was kept as version 1, and is gone", turn_id=None)


def test_i19_an_item_that_is_another_at_rest() -> None:
    book = claimed()
    book.keep()
    evidence = ended(book)
    amend(evidence.memory_items, lambda item: True, version=0)

    assert_convicts(evidence, "I19", "was last written as version 1, and is version 0", turn_id=None)


def test_i19_a_session_that_does_not_know_its_newest_version() -> None:
    book = claimed()
    book.keep()
    evidence = ended(book)
    amend(evidence.memory_items, lambda item: True, session_version=0)

    assert_convicts(evidence, "I19", "its newest item is version 1, and it is known as 0", turn_id=None)
