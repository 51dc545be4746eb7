"""Calls after a while, by one timer: each is made, in its order and not before its time."""

import asyncio
from contextvars import ContextVar

from tests.probes import until
from worker.openings import OPENING_SECONDS, Openings


async def test_each_call_is_made_after_its_own_time() -> None:
    loop = asyncio.get_running_loop()
    openings = Openings()
    added: list[float] = []
    made: list[tuple[int, float]] = []

    def add() -> None:
        number = len(added)
        added.append(loop.time())
        openings.add(lambda: made.append((number, loop.time())))

    add()
    # Between the first and its time, so that one timer finds one that is due and one that is not.
    loop.call_later(OPENING_SECONDS / 2, add)
    await until(lambda: len(made) == 2)

    assert [number for number, _ in made] == [0, 1]
    assert all(at - added[number] >= OPENING_SECONDS * 0.99 for number, at in made)


async def test_a_call_that_is_added_after_all_were_made_is_made_too() -> None:
    openings = Openings()
    made: list[str] = []
    openings.add(lambda: made.append("first"))
    await until(lambda: made == ["first"])

    openings.add(lambda: made.append("second"))

    await until(lambda: made == ["first", "second"])


async def test_a_call_may_add_another() -> None:
    openings = Openings()
    made: list[str] = []

    def call() -> None:
        made.append("first")
        openings.add(lambda: made.append("second"))

    openings.add(call)

    await until(lambda: made == ["first", "second"])


async def test_each_call_knows_what_was_bound_where_it_was_added() -> None:
    bound: ContextVar[str] = ContextVar("bound")
    openings = Openings()
    made: list[tuple[str, str]] = []

    async def turn(name: str) -> None:
        bound.set(name)
        openings.add(lambda: made.append((name, bound.get())))

    await asyncio.gather(turn("a"), turn("b"))

    await until(lambda: len(made) == 2)
    assert made == [("a", "a"), ("b", "b")]
