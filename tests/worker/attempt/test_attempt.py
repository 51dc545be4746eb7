"""An attempt that is not stopped: whatever the handler returns or raises, there is exactly one outcome."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, cast

import pytest

from tests.worker.attempt.attempts import LONG, Bench, wait_forever
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.worker.attempt.outcome import Failed, Outcome, Snoozed, Succeeded
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS


async def test_a_handler_that_returns_succeeds(bench: Bench) -> None:
    async def answer(turn: Turn, ctx: Context) -> str:
        return f"{turn.input} {ctx.fence}"

    assert await bench.attempt(answer).run(LONG, LONG) == Succeeded("hi 7")


async def test_a_plain_function_that_returns_a_coroutine_is_awaited(bench: Bench) -> None:
    async def answer(greeting: str, turn: Turn, _: Context) -> str:
        return f"{greeting} {turn.input}"

    class Callable_:  # noqa: N801 - a callable object, as some frameworks make them
        async def __call__(self, turn: Turn, _: Context) -> Any:
            return turn.input

    assert await bench.attempt(partial(answer, "oh")).run(LONG, LONG) == Succeeded("oh hi")
    assert await bench.attempt(Callable_()).run(LONG, LONG) == Succeeded("hi")


async def test_the_reply_of_a_generator_is_the_text_that_it_yields(bench: Bench) -> None:
    async def speak(turn: Turn, _: Context) -> AsyncGenerator[Any, None]:
        yield "oh "
        yield {"progress": 1}
        yield str(turn.input)

    assert await bench.attempt(speak).run(LONG, LONG) == Succeeded("oh hi")


async def test_a_generator_is_broken_off_beyond_the_limit_of_a_reply(bench: Bench) -> None:
    """It may have no end."""
    pieces: list[str] = []

    async def speak(_: Turn, __: Context) -> AsyncGenerator[str, None]:
        while len(pieces) < 100:
            pieces.append("x" * (MAX_REPLY_CHARACTERS // 4))
            yield pieces[-1]

    outcome = await bench.attempt(speak).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.may_heal, len(pieces)) == ("unfit_reply", False, 5)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Retry("busy", after=3), Failed("Retry", "busy", may_heal=True, after=3)),
        (Snooze(after=9), Snoozed(9)),
    ],
)
async def test_a_handler_that_raises_has_the_outcome_of_its_error(
    bench: Bench, error: Exception, outcome: Outcome
) -> None:
    async def fail(*_: Any) -> None:
        raise error

    def fail_in_thread(*_: Any) -> None:
        raise error

    assert await bench.attempt(fail).run(LONG, LONG) == outcome
    assert await bench.attempt(fail_in_thread).run(LONG, LONG) == outcome


async def test_a_stop_iteration_of_the_handler_is_a_failure(bench: Bench) -> None:
    # A future accepts no StopIteration: the attempt would wait until its timeout.
    async def find(*_: Any) -> Any:
        return next(iter([]))

    for function in (find, lambda *_: next(iter([]))):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert (outcome.error_class, outcome.may_heal) == ("RuntimeError", False)


def make_odd_error() -> Exception:
    """An error whose class can't be read. Made here, because pytest inspects everything in this module."""

    class OddError(Exception):
        @property
        def __class__(self) -> Any:
            raise KeyError("no class")

        @__class__.setter
        def __class__(self, _: Any) -> None: ...

    return OddError()


class BusyError(Retry):
    """A handler's own subclass, with the wait from a provider's header."""

    def __init__(self, after: Any) -> None:
        super().__init__("busy")
        self.after = after


class AwayError(Snooze):
    """The same."""

    def __init__(self, after: Any) -> None:
        super().__init__(after=0)
        self.after = after


class RefusedError(Reject):
    """An error whose `dead_letter` has no truth value."""

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
        ("AwayError", partial(AwayError, A_DATE)),
        ("RefusedError", RefusedError),
    ],
)
async def test_an_error_that_can_not_be_inspected_is_a_failure(
    bench: Bench, name: str, make: Callable[[], Exception]
) -> None:
    async def fail(*_: Any) -> None:
        raise make()

    outcome = await bench.attempt(fail).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.may_heal) == (name, False)


async def test_a_handler_that_cancels_itself_fails(bench: Bench) -> None:
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


async def test_a_traceback_that_could_not_be_stored_is_cleaned(bench: Bench) -> None:
    names: dict[str, Any] = {}
    exec(compile("def fail():\n    raise ValueError('no')", "<made \udc80>", "exec"), names)  # noqa: S102 - the name is the fault

    async def handle(turn: Turn, ctx: Context) -> None:
        names["fail"]()

    outcome = await bench.outcome_of(handle)

    assert isinstance(outcome, Failed)
    assert outcome.traceback is not None
    assert "<made ?>" in outcome.traceback
