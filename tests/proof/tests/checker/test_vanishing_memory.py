"""I19, vanishing: what is not durable is its newest or nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence
from tests.proof.tests.checker.conviction import assert_convicts
from tests.proof.tests.checker.notebook import ITEM, Notebook
from tests.proof.tests.checker.scene import Scene


def claimed() -> Notebook:
    return Notebook(Scene().submit().claim())


def ended(book: Notebook) -> Evidence:
    book.scene.settle()
    return book.rest()


def kept_and_read() -> Evidence:
    book = claimed()
    book.keep(kind=ITEM)
    return ended(book.look(kind=ITEM, version=book.keep(kind=ITEM, expected=1)))


def kept_and_vanished() -> Evidence:
    book = claimed()
    book.keep(kind=ITEM)
    return ended(book.look(kind=ITEM, version=None).say("find", kind=ITEM, found={}))


def kept_though_nobody_was_told() -> Evidence:
    """The answer was lost; or the command lay on the way, and came in after a later one."""
    book = claimed()
    book.keep(kind=ITEM, outcome="not kept")
    book.keep(kind=ITEM)
    return ended(book.look(kind=ITEM, version=3, value={"by": "a", "fence": 1, "n": 1}))


def deleted_and_written_again() -> Evidence:
    book = claimed()
    book.keep(kind=ITEM)
    book.forget(kind=ITEM).look(kind=ITEM, version=None)
    return ended(book.look(kind=ITEM, version=book.keep(kind=ITEM)))


@pytest.mark.parametrize(
    "story", [kept_and_read, kept_and_vanished, kept_though_nobody_was_told, deleted_and_written_again]
)
def test_convicts_nobody(story: Callable[[], Evidence]) -> None:
    assert check(story()) == []


def test_i19_an_older_value_after_a_newer_one_was_acknowledged() -> None:
    book = claimed()
    first, second = book.keep(kind=ITEM), book.keep(kind=ITEM)

    evidence = ended(book.look(kind=ITEM, version=first))

    assert_convicts(
        evidence, "I19", f"met version {first} after version {second} had been acknowledged (get of item 'city')"
    )


def test_i19_an_older_version_in_a_search() -> None:
    book = claimed()
    book.keep(kind=ITEM)
    book.keep(kind=ITEM)

    assert_convicts(ended(book.say("find", kind=ITEM, found={"city": 1})), "I19", "(find of item 'city')")


def test_i19_a_swap_of_a_version_that_was_not_there_any_more() -> None:
    book = claimed()
    first = book.keep(kind=ITEM)
    book.keep(kind=ITEM)
    book.keep(kind=ITEM, expected=first)

    assert_convicts(ended(book), "I19", "met version 1 after version 2 had been acknowledged (set of item 'city')")


def test_i19_an_item_that_was_deleted() -> None:
    book = claimed()
    version = book.keep(kind=ITEM)
    book.forget(kind=ITEM)

    assert_convicts(ended(book.look(kind=ITEM, version=version)), "I19", "met version 1 after it had been deleted")


def test_i19_another_value_than_was_written() -> None:
    book = claimed()
    version = book.keep(kind=ITEM)

    assert_convicts(ended(book.look(kind=ITEM, version=version, value="Bergen")), "I19", "and it was written as")


@pytest.mark.parametrize("value", ["Bergen", {"by": "b", "fence": 1}, {"by": "a", "fence": 7}])
def test_i19_a_value_that_nobody_in_the_session_can_have_written(value: object) -> None:
    book = claimed()
    book.scene.submit("b", session="r")

    assert_convicts(
        ended(book.look(kind=ITEM, version=9, value=value)), "I19", "no run of its session can have written"
    )


def test_i19_a_version_that_came_twice() -> None:
    book = claimed()
    book.keep(kind=ITEM)
    acts = book.scene.evidence.memory_acts
    acts.append(replace(acts[0], at=acts[0].at + 1, until=acts[0].until + 1))

    assert_convicts(ended(book), "I19", "made version 1 of item 'city', which another write had made")
