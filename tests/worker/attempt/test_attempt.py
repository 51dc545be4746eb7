"""An attempt that nobody stops: whatever the handler returns or raises, exactly one outcome comes of it."""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from tests.support.attempting import LONG, Bench, wait_forever
from turnstile.handlers.handler import Context, Reject, Retry, Snooze, Turn
from turnstile.worker.attempt.outcome import Failed, Outcome, Snoozed, Succeeded


async def test_a_handler_that_returns_has_succeeded(bench: Bench) -> None:
    async def answer(turn: Turn, ctx: Context) -> str:
        return f"{turn.input} {ctx.fence}"

    assert await bench.attempt(answer).run(LONG, LONG) == Succeeded("hi 7")


async def test_a_plain_function_is_a_handler_too(bench: Bench) -> None:
    assert await bench.attempt(lambda turn, _: turn.input).run(LONG, LONG) == Succeeded("hi")


async def test_a_plain_function_that_returns_a_coroutine_is_awaited(bench: Bench) -> None:
    async def answer(greeting: str, turn: Turn, _: Context) -> str:
        return f"{greeting} {turn.input}"

    class Callable_:  # noqa: N801 - a callable object, as some frameworks make them
        async def __call__(self, turn: Turn, _: Context) -> Any:
            return turn.input

    assert await bench.attempt(partial(answer, "oh")).run(LONG, LONG) == Succeeded("oh hi")
    assert await bench.attempt(Callable_()).run(LONG, LONG) == Succeeded("hi")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("a bug"), Failed("ValueError", "a bug", may_heal=False)),
        (Retry("busy", after=3), Failed("Retry", "busy", may_heal=True, after=3)),
        (Snooze(after=9), Snoozed(9)),
        (TimeoutError("the provider's"), Failed("TimeoutError", "the provider's", may_heal=True)),
    ],
)
async def test_a_handler_that_raises_has_failed_as_it_says(bench: Bench, error: Exception, outcome: Outcome) -> None:
    async def fail(*_: Any) -> None:
        raise error

    def fail_in_thread(*_: Any) -> None:
        raise error

    assert await bench.attempt(fail).run(LONG, LONG) == outcome
    assert await bench.attempt(fail_in_thread).run(LONG, LONG) == outcome


async def test_an_iterator_that_ends_in_the_handler_is_a_failure_like_any_other(bench: Bench) -> None:
    # No future can carry a StopIteration: left to asyncio, its handler would not end before its time was over.
    async def find(*_: Any) -> Any:
        return next(iter([]))

    for function in (find, lambda *_: next(iter([]))):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert (outcome.error_class, outcome.may_heal) == ("RuntimeError", False)


def make_odd_error() -> Exception:
    """Nobody can say of what class it is; not of this module, through which pytest looks for tests."""

    class OddError(Exception):
        @property
        def __class__(self) -> Any:
            raise KeyError("no class")

        @__class__.setter
        def __class__(self, _: Any) -> None: ...

    return OddError()


class BusyError(Retry):
    """As many write it, with the wait that a provider's header names."""

    def __init__(self, after: Any) -> None:
        super().__init__("busy")
        self.after = after


class AwayError(Snooze):
    """The same."""

    def __init__(self, after: Any) -> None:
        super().__init__(after=0)
        self.after = after


class RefusedError(Reject):
    """Nobody can say whether it wants a dead letter."""

    class Undecided:
        def __bool__(self) -> bool:
            raise ValueError("neither")

    def __init__(self) -> None:
        super().__init__("no")
        self.dead_letter = cast("bool", self.Undecided())


A_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("OddError", make_odd_error),
        *(("BusyError", partial(BusyError, after)) for after in (A_DATE, math.nan, [5])),
        *(("AwayError", partial(AwayError, after)) for after in (A_DATE, math.nan, [5])),
        ("RefusedError", RefusedError),
    ],
)
async def test_what_cannot_be_judged_has_failed(bench: Bench, name: str, make: Callable[[], Exception]) -> None:
    async def fail(*_: Any) -> None:
        raise make()

    outcome = await bench.attempt(fail).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.may_heal) == (name, False)


async def test_what_the_handler_declares_may_heal(bench: Bench) -> None:
    async def fail(*_: Any) -> None:
        raise KeyError("x")

    outcome = await bench.attempt(fail, (LookupError,)).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert outcome.may_heal


async def test_a_handler_that_cancels_itself_has_failed(bench: Bench) -> None:
    async def give_in(*_: Any) -> None:
        raise asyncio.CancelledError

    async def cancel_own_task(*_: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await wait_forever()

    for function in (give_in, cancel_own_task):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert (outcome.error_class, outcome.may_heal) == ("CancelledError", False)
