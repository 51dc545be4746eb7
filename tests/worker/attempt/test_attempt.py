"""An attempt: whatever the handler does, exactly one outcome comes of it."""

import asyncio
import concurrent.futures
import gc
import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.probes import until, wait_until
from turnstile.handlers.handler import Context, Handler, Reject, Retry, Snooze, Turn
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import NOTHING_SAID
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.attempt.context import TurnContext, turn_for_handler
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.attempt.outcome import Failed, Outcome, Snoozed, Stopped, StopReason, Succeeded, TimedOut
from turnstile.worker.attempt.system_exit_guard import outlive_exits

CLAIMED = ClaimedTurn(
    claim_id=UUID(int=1), id=UUID(int=2), tenant_id="t", session_id="s", seq=1, queue="turns", attempt=1, failures=0,
    crashes=0, max_attempts=None, generation=1, fence=7, timeout_seconds=None, expires_in_seconds=900.0,
    dwell_seconds=0.0, metadata={}, trace_id="1" * 32, span_id="1" * 16, created_at=datetime(2026, 1, 1, tzinfo=UTC),
    inputs=("hi",), messages=(), history_version=NOTHING_SAID,
)  # fmt: skip

THREADS = 2
LONG = 60.0
"""Seconds that no test waits for."""


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


class Bench:
    """Makes attempts of handlers, and keeps what a test looks at."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self.began = asyncio.Event()
        self.appended: list[Append] = []
        emitter = Emitter(CLAIMED, "k", 100, self._append, lambda *_: None)
        nothing = cast("Any", None)
        self.context = TurnContext(
            CLAIMED,
            LONG,
            nothing,
            history=nothing,
            memory=nothing,
            emitter=emitter,
            values=nothing,
            children=nothing,
        )

    def _append(self, append: Append) -> "asyncio.Future[Appended]":
        self.appended.append(append)
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.APPENDED)
        return answered

    def attempt(self, function: Callable[[Any, Any], Any], retry_on: tuple[type[BaseException], ...] = ()) -> Attempt:
        return Attempt(Handler(function, retry_on=retry_on), turn_for_handler(CLAIMED), self.context, self._threads)

    async def outcome_of(self, function: Callable[[Any, Any], Any]) -> Outcome:
        """Of an attempt that has all the time."""
        return await self.attempt(function).run(LONG, LONG)

    async def stopped(self, attempt: Attempt, reason: StopReason, grace: float = LONG) -> Outcome:
        """The outcome of an attempt that is stopped once its handler has begun."""
        running = asyncio.create_task(attempt.run(LONG, grace))
        await self.began.wait()
        attempt.stop(reason)
        return await running


@pytest.fixture
async def bench(threads: Executor) -> Bench:
    return Bench(threads)


async def wait_forever() -> None:
    await asyncio.Event().wait()


# --- it comes to its end by itself


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


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
async def test_a_handler_that_exits_fails_its_turn_and_not_its_worker(bench: Bench, error: BaseException) -> None:
    async def leave(*_: Any) -> None:
        raise error

    def leave_in_thread(*_: Any) -> None:
        raise error

    for function in (leave, leave_in_thread):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert type(error).__name__ in f"{outcome.error_class} {outcome.error}"
        assert not outcome.may_heal


async def exit_process() -> None:
    sys.exit("from below")


async def gather(*_: Any) -> None:
    await asyncio.gather(exit_process(), wait_forever())


async def make_tasks(*_: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exit_process())
        group.create_task(wait_forever())


async def wait_for_later_task(*_: Any) -> None:
    await asyncio.create_task(gather())


def wait_in_thread(_: Turn, ctx: Context) -> None:
    ctx.wait_for(exit_process())


def wait_in_thread_of_its_own(_: Turn, ctx: Context) -> None:
    # Which has not the context that the handler's thread was given.
    with ThreadPoolExecutor(1) as own:
        own.submit(ctx.wait_for, exit_process()).result()


BELOW = [gather, make_tasks, wait_for_later_task, wait_in_thread, wait_in_thread_of_its_own]


@pytest.mark.parametrize("function", BELOW)
def test_an_exit_below_the_handlers_own_task_fails_its_turn_and_not_its_worker(function: Callable[..., Any]) -> None:
    # On a loop of its own: what it is about ends the loop.
    loop = asyncio.new_event_loop()
    outlive_exits(loop)

    async def make_bench() -> Bench:
        return Bench(pool)

    with ThreadPoolExecutor(THREADS) as pool:
        bench = loop.run_until_complete(make_bench())
        try:
            outcome = loop.run_until_complete(bench.outcome_of(function))
        except SystemExit:
            pytest.fail("the loop has ended", pytrace=False)
        finally:
            # Or a thread that waits for a loop that has ended would keep the test.
            bench.context.cancel(CancelReason.SHUTDOWN)
    loop.close()

    assert isinstance(outcome, Failed)
    assert outcome.error_class in {"HandlerExitedError", "ExceptionGroup"}
    assert not outcome.may_heal


async def test_a_task_of_a_handlers_that_is_cancelled_before_it_begins_leaves_nothing_unawaited(
    bench: Bench, recwarn: pytest.WarningsRecorder
) -> None:
    outlive_exits(asyncio.get_running_loop())

    gc.collect()
    recwarn.clear()

    async def change_its_mind(*_: Any) -> str:
        task = asyncio.create_task(wait_forever())
        task.cancel()
        await asyncio.wait({task})
        return "never mind"

    assert await bench.attempt(change_its_mind).run(LONG, LONG) == Succeeded("never mind")
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


async def test_a_library_may_look_at_a_handlers_tasks(bench: Bench) -> None:
    # As anyio does, and with it many a client of a provider: which of its tasks have begun, and what they are called.
    outlive_exits(asyncio.get_running_loop())

    async def look(*_: Any) -> list[str]:
        task = asyncio.create_task(wait_forever())
        coroutine: Any = task.get_coro()
        before = inspect.getcoroutinestate(coroutine)
        await asyncio.get_running_loop().run_in_executor(None, int)
        after = inspect.getcoroutinestate(coroutine)
        task.cancel()
        return [before, after, coroutine.__qualname__]

    expected = [inspect.CORO_CREATED, inspect.CORO_SUSPENDED, "wait_forever"]
    assert await bench.attempt(look).run(LONG, LONG) == Succeeded(expected)


@pytest.mark.parametrize("unfit", [5, "text"])
async def test_what_is_no_coroutine_makes_no_task(bench: Bench, unfit: Any) -> None:
    outlive_exits(asyncio.get_running_loop())

    async def make_task(*_: Any) -> None:
        await asyncio.create_task(unfit)

    for function in (make_task, lambda _, ctx: ctx.wait_for(unfit)):
        outcome = await bench.attempt(function).run(LONG, LONG)
        assert isinstance(outcome, Failed)
        assert outcome.error_class == "TypeError"


# --- it takes too long


async def test_a_handler_that_takes_too_long_is_cancelled(bench: Bench) -> None:
    seen: list[str] = []

    async def dawdle(_: Turn, ctx: Context) -> None:
        try:
            await wait_forever()
        except asyncio.CancelledError:
            seen.append(f"cancelled {ctx.cancelled}: {ctx.cancel_reason}")
            raise

    assert await bench.attempt(dawdle).run(0.05, LONG) == TimedOut(0.05)
    assert seen == ["cancelled True: timeout"]


async def test_a_handler_that_answers_after_its_time_has_timed_out_all_the_same(bench: Bench) -> None:
    async def too_late(*_: Any) -> str:
        try:
            await wait_forever()
        except asyncio.CancelledError:
            return "too late"
        return "never"

    assert await bench.attempt(too_late).run(0.05, LONG) == TimedOut(0.05)


async def test_a_handler_that_ignores_its_cancellation_is_left_behind(bench: Bench) -> None:
    release = asyncio.Event()

    async def deaf(*_: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    attempt = bench.attempt(deaf)

    assert await attempt.run(0.05, 0.05) == TimedOut(0.05)
    assert attempt.left_behind is not None
    assert not attempt.left_behind.done()
    release.set()
    await attempt.left_behind


async def test_a_handler_that_heeds_its_cancellation_is_not_left_behind(bench: Bench) -> None:
    async def dawdle(*_: Any) -> None:
        await wait_forever()

    attempt = bench.attempt(dawdle)
    await attempt.run(0.05, LONG)

    assert attempt.left_behind is None


async def test_a_function_in_a_thread_sees_that_it_is_cancelled(bench: Bench) -> None:
    seen: list[tuple[bool, CancelReason | None]] = []

    def look(_: Turn, ctx: Context) -> None:
        while not ctx.cancelled:
            pass
        seen.append((ctx.cancelled, ctx.cancel_reason))

    assert await bench.attempt(look).run(0.05, LONG) == TimedOut(0.05)
    await until(lambda: seen)
    assert seen == [(True, CancelReason.TIMEOUT)]


# --- it is stopped


@pytest.mark.parametrize("reason", StopReason)
async def test_a_handler_that_is_stopped_is_cancelled(bench: Bench, reason: StopReason) -> None:
    async def dawdle(*_: Any) -> None:
        bench.began.set()
        await wait_forever()

    assert bench.context.cancel_reason is None
    assert await bench.stopped(bench.attempt(dawdle), reason) == Stopped(reason)
    assert bench.context.cancelled
    assert bench.context.cancel_reason is reason.told


async def test_a_handler_is_told_the_reason_that_the_row_has_and_the_first_one_counts(bench: Bench) -> None:
    async def dawdle(*_: Any) -> None:
        bench.began.set()
        await wait_forever()

    attempt = bench.attempt(dawdle)
    running = asyncio.create_task(attempt.run(LONG, LONG))
    await bench.began.wait()
    attempt.stop(StopReason.CANCELED, CancelReason.SUPERSEDED)
    attempt.stop(StopReason.CANCELED, CancelReason.USER)

    assert await running == Stopped(StopReason.CANCELED)
    assert bench.context.cancel_reason is CancelReason.SUPERSEDED


@pytest.mark.parametrize("reason", StopReason)
async def test_an_attempt_that_is_stopped_before_it_runs_never_calls_the_handler(
    bench: Bench, reason: StopReason
) -> None:
    called: list[object] = []
    attempt = bench.attempt(lambda *_: called.append(1))
    attempt.stop(reason)

    assert await attempt.run(LONG, LONG) == Stopped(reason)
    assert called == []


async def test_the_first_reason_to_stop_counts(bench: Bench) -> None:
    attempt = bench.attempt(lambda *_: None)
    for reason in (StopReason.SUPERSEDED, StopReason.CANCELED, StopReason.SHUTDOWN):
        attempt.stop(reason)

    assert await attempt.run(LONG, LONG) == Stopped(StopReason.SUPERSEDED)


async def test_a_stop_that_comes_after_the_end_changes_nothing(bench: Bench) -> None:
    attempt = bench.attempt(lambda *_: "done")

    assert await attempt.run(LONG, LONG) == Succeeded("done")
    attempt.stop(StopReason.CANCELED)


@pytest.mark.parametrize("reason", StopReason)
async def test_what_a_handler_returns_once_it_was_cancelled_is_no_answer(bench: Bench, reason: StopReason) -> None:
    async def break_off(*_: Any) -> str:
        bench.began.set()
        try:
            await wait_forever()
        except asyncio.CancelledError:
            return "as far as I had c"
        return "never"

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


@pytest.mark.parametrize("reason", StopReason)
@pytest.mark.parametrize("look", [lambda ctx: ctx.cancelled, lambda ctx: ctx.cancel_reason], ids=["whether", "why"])
async def test_what_a_thread_returns_once_it_has_seen_that_it_shall_stop_is_no_answer(
    bench: Bench, reason: StopReason, look: Callable[[Context], object]
) -> None:
    loop = asyncio.get_running_loop()

    def break_off(_: Turn, ctx: Context) -> str:
        loop.call_soon_threadsafe(bench.began.set)
        while not look(ctx):
            pass
        return "as far as I had c"

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


async def test_what_a_thread_returns_once_a_call_of_its_was_cancelled_is_no_answer(bench: Bench) -> None:
    async def ask() -> None:
        bench.began.set()
        await wait_forever()

    def break_off(_: Turn, ctx: Context) -> str:
        try:
            ctx.wait_for(ask())
        except concurrent.futures.CancelledError:
            return "as far as I had c"
        return "never"

    assert await bench.stopped(bench.attempt(break_off), StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)


NOT_TOLD = pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.SHUTDOWN, Succeeded("just in time")),
        (StopReason.CANCELED, Stopped(StopReason.CANCELED)),
        (StopReason.SUPERSEDED, Stopped(StopReason.SUPERSEDED)),
    ],
)


@NOT_TOLD
async def test_an_answer_in_the_moment_of_the_stop_counts_at_a_shutdown_only(
    bench: Bench, reason: StopReason, outcome: Outcome
) -> None:
    async def finish(*_: Any) -> str:
        attempt.stop(reason)
        return "just in time"

    attempt = bench.attempt(finish)

    assert await attempt.run(LONG, LONG) == outcome


@NOT_TOLD
async def test_an_answer_of_a_thread_that_never_looked_counts_at_a_shutdown_only(
    bench: Bench, reason: StopReason, outcome: Outcome
) -> None:
    loop = asyncio.get_running_loop()

    def finish(_: Turn, ctx: Context) -> str:
        assert not ctx.cancelled
        loop.call_soon_threadsafe(bench.began.set)
        # The test's own look, of which the context knows nothing.
        while not bench.context._cancelled:
            pass
        return "just in time"

    assert await bench.stopped(bench.attempt(finish), reason) == outcome


def stopped_as_its_thread_returns(bench: Bench, monkeypatch: pytest.MonkeyPatch, reply: Any) -> Attempt:
    """An attempt whose thread has returned while its loop was busy telling it to stop, and has heard of neither."""
    release, cancel = threading.Event(), bench.context.cancel
    loop = asyncio.get_running_loop()

    def answer(*_: Any) -> Any:
        loop.call_soon_threadsafe(bench.began.set)
        release.wait(30)
        return reply

    attempt = bench.attempt(answer)

    def cancel_and_hold_the_loop(reason: CancelReason) -> None:
        cancel(reason)
        release.set()
        wait_until(lambda: attempt._job is not None and attempt._job.done())

    monkeypatch.setattr(bench.context, "cancel", cancel_and_hold_the_loop)
    return attempt


async def test_an_answer_of_a_thread_that_its_loop_has_not_heard_of_counts_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = stopped_as_its_thread_returns(bench, monkeypatch, "just in time")

    assert await bench.stopped(attempt, StopReason.SHUTDOWN) == Succeeded("just in time")


async def test_a_coroutine_that_a_thread_returns_as_it_is_stopped_is_cancelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = wait_forever()
    attempt = stopped_as_its_thread_returns(bench, monkeypatch, returned)

    assert await bench.stopped(attempt, StopReason.SHUTDOWN) == Stopped(StopReason.SHUTDOWN)
    assert attempt.left_behind is None
    returned.close()


async def test_a_function_in_a_thread_that_ignores_its_cancellation_is_left_behind(bench: Bench) -> None:
    release = threading.Event()
    attempt = bench.attempt(lambda *_: release.wait(30))

    assert await attempt.run(0.05, 0.05) == TimedOut(0.05)
    assert attempt.left_behind is not None
    assert not attempt.left_behind.done()
    release.set()
    await asyncio.wait({attempt.left_behind}, timeout=30)
    assert attempt.left_behind.done()


async def test_a_function_that_waits_for_a_thread_is_never_called_once_it_is_stopped(bench: Bench) -> None:
    release, begun, called = threading.Event(), [], []

    def occupy(*_: Any) -> None:
        begun.append(1)
        release.wait(30)

    busy = [asyncio.create_task(bench.attempt(occupy).run(LONG, LONG)) for _ in range(THREADS)]
    await until(lambda: len(begun) == THREADS)
    waiting = bench.attempt(lambda *_: called.append(1))

    assert await waiting.run(0.05, LONG) == TimedOut(0.05)

    assert waiting.left_behind is None
    release.set()
    await asyncio.wait(busy, timeout=30)
    assert called == []


async def test_a_shutdown_shortens_the_grace_of_whatever_is_on_its_way_out(bench: Bench) -> None:
    release = asyncio.Event()

    async def deaf(*_: Any) -> None:
        bench.began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    attempt = bench.attempt(deaf)
    running = asyncio.create_task(attempt.run(LONG, 10 * LONG))
    await bench.began.wait()
    attempt.stop(StopReason.CANCELED)
    attempt.stop(StopReason.SHUTDOWN)

    assert await asyncio.wait_for(running, LONG) == Stopped(StopReason.CANCELED)
    release.set()


@pytest.mark.parametrize("reason", StopReason)
async def test_a_failure_on_the_way_out_is_the_stops_and_not_the_handlers(bench: Bench, reason: StopReason) -> None:
    async def break_off(*_: Any) -> None:
        bench.began.set()
        try:
            await wait_forever()
        finally:
            raise ValueError("what the user said")

    assert await bench.stopped(bench.attempt(break_off), reason) == Stopped(reason)


async def test_a_handler_that_ignores_its_stop_is_left_behind(bench: Bench) -> None:
    release = asyncio.Event()

    async def deaf(*_: Any) -> None:
        bench.began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    attempt = bench.attempt(deaf)

    assert await bench.stopped(attempt, StopReason.SHUTDOWN, grace=0.05) == Stopped(StopReason.SHUTDOWN)
    assert attempt.left_behind is not None
    release.set()
    await attempt.left_behind


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="the forgotten exception shows at once with CPython only")
@pytest.mark.parametrize("how", ["timeout", *StopReason])
async def test_what_is_raised_on_the_way_out_is_not_reported_as_forgotten(bench: Bench, how: str) -> None:
    """asyncio logs the text of an exception that nobody looked at, and it may quote what the user said."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))

    async def break_off(*_: Any) -> None:
        bench.began.set()
        try:
            await wait_forever()
        finally:
            raise ValueError("what the user said")

    if how == "timeout":
        await bench.attempt(break_off).run(0.05, LONG)
    else:
        await bench.stopped(bench.attempt(break_off), StopReason(how))
    gc.collect()

    assert complaints == []


# --- async calls from a thread


async def test_a_plain_function_waits_for_an_async_call(bench: Bench) -> None:
    async def ask() -> str:
        return threading.current_thread().name

    def answer(turn: Turn, ctx: Context) -> list[Any]:
        return [ctx.wait_for(ask()), threading.current_thread().name]

    outcome = await bench.attempt(answer).run(LONG, LONG)

    assert isinstance(outcome, Succeeded)
    assert outcome.reply[0] == threading.main_thread().name != outcome.reply[1]


async def test_what_an_async_call_raises_is_raised_in_the_thread(bench: Bench) -> None:
    async def ask() -> None:
        raise ValueError("no such thing")

    def answer(turn: Turn, ctx: Context) -> None:
        ctx.wait_for(ask())

    assert await bench.attempt(answer).run(LONG, LONG) == Failed("ValueError", "no such thing", may_heal=False)


@pytest.mark.parametrize("already", [False, True])
async def test_a_cancelled_turn_waits_for_nothing(bench: Bench, already: bool) -> None:
    began = threading.Event()

    def answer(turn: Turn, ctx: Context) -> str:
        began.set()
        while already and not ctx.cancelled:
            pass
        ctx.wait_for(wait_forever())
        return "never"

    running = asyncio.create_task(bench.attempt(answer).run(0.2, LONG))

    assert isinstance(await running, TimedOut)
    assert began.is_set()


async def test_an_async_function_is_told_to_await(bench: Bench) -> None:
    async def answer(turn: Turn, ctx: Context) -> None:
        ctx.wait_for(wait_forever())

    outcome = await bench.attempt(answer).run(LONG, LONG)

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "RuntimeError"
