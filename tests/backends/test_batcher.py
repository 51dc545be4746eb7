"""Batches: which calls share one, in which order, and what a failed item does to the others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tests.support.probes import turn_loop
from turnstile.backends.batcher import Batcher
from turnstile.errors import TurnstileError
from turnstile.worker.lifecycle.event_loop import WorkerLoop

Flush = Callable[[Sequence[int]], Awaitable[Sequence[int]]]


class Recorder:
    """A flush that doubles its items, notes its batches and waits at a gate."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0
        self.most_running = 0

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return [item * 2 for item in items]


async def all_of(*calls: Awaitable[int]) -> list[Any]:
    """Their answers or exceptions. The bound is for an item that is stuck: it would wait for ever."""
    return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)


async def test_calls_of_one_loop_iteration_are_one_batch() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=10)

    await all_of(*(call(item) for item in range(5)))

    assert flush.batches == [[0, 1, 2, 3, 4]]


async def test_calls_during_a_flush_form_the_next_batch() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=10)
    flush.gate.clear()
    first = asyncio.ensure_future(call(0))
    await turn_loop()
    others = [asyncio.ensure_future(call(item)) for item in (1, 2, 3)]
    await turn_loop()
    flush.gate.set()

    await all_of(first, *others)

    assert flush.batches == [[0], [1, 2, 3]]


async def test_batches_keep_the_limit_and_the_order() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=4)

    await all_of(*(call(item) for item in range(10)))

    assert flush.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("lanes", [1, 3])
async def test_one_flush_runs_per_lane(lanes: int) -> None:
    flush = Recorder()
    call = Batcher(flush, limit=1, lanes=lanes)
    flush.gate.clear()
    calls = [asyncio.ensure_future(call(item)) for item in range(10)]
    await turn_loop()
    flush.gate.set()
    await all_of(*calls)

    assert flush.most_running == lanes


async def test_with_patience_few_calls_wait_for_the_running_flush() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=4, lanes=3, patience_seconds=60.0)
    flush.gate.clear()
    first = asyncio.ensure_future(call(0))
    await turn_loop()
    others = [asyncio.ensure_future(call(item)) for item in (1, 2, 3)]
    await turn_loop()

    assert flush.batches == [[0]]
    flush.gate.set()
    await all_of(first, *others)
    assert flush.batches == [[0], [1, 2, 3]]


async def test_with_patience_a_flush_that_ends_leaves_few_calls_to_the_flushes_that_run() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    batches: list[list[int]] = []

    async def flush(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        if len(batches) <= len(gates):
            await gates[len(batches) - 1].wait()
        return list(items)

    call = Batcher(flush, limit=2, lanes=2, patience_seconds=60.0)
    calls = [asyncio.ensure_future(call(item)) for item in range(5)]
    await turn_loop()
    gates[0].set()
    await turn_loop()

    assert batches == [[0, 1], [2, 3]]
    gates[1].set()
    await all_of(*calls)
    assert batches[2:] == [[4]]


async def test_with_patience_a_flush_that_hangs_keeps_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    hangs, goes_on = asyncio.Event(), asyncio.Event()
    batches: list[list[int]] = []

    async def flush(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await (hangs if 0 in items else goes_on).wait()
        return list(items)

    call = Batcher(flush, limit=2, lanes=2, patience_seconds=60.0)
    hanging = [asyncio.ensure_future(call(item)) for item in (0, 1)]
    await turn_loop()
    # A minute later.
    monkeypatch.setattr(loop, "time", partial(lambda real: real() + 60.0, loop.time))
    others = [asyncio.ensure_future(call(item)) for item in (2, 3)]
    await turn_loop()
    others.append(asyncio.ensure_future(call(4)))
    await turn_loop()
    goes_on.set()

    assert await all_of(*others) == [2, 3, 4]
    assert batches == [[0, 1], [2, 3], [4]]
    hangs.set()
    await all_of(*hanging)


async def test_with_patience_a_full_batch_starts_at_once() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=4, lanes=3, patience_seconds=60.0)
    flush.gate.clear()
    calls = [asyncio.ensure_future(call(item)) for item in range(10)]
    await turn_loop()

    assert flush.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    flush.gate.set()
    await all_of(*calls)
    assert flush.batches[2:] == [[8, 9]]


async def test_with_patience_a_call_starts_a_second_flush_while_the_first_takes_long() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=4, lanes=2, patience_seconds=1e-9)
    flush.gate.clear()
    first = asyncio.ensure_future(call(0))
    await turn_loop()
    second = asyncio.ensure_future(call(1))
    await turn_loop()

    assert flush.batches == [[0], [1]]
    flush.gate.set()
    await all_of(first, second)


async def test_one_bad_item_fails_alone() -> None:
    async def flush(items: Sequence[int]) -> list[int]:
        if 3 in items:
            raise ValueError("three")
        return list(items)

    call = Batcher(flush, limit=10)

    answers = await all_of(*(call(item) for item in range(5)))

    assert [str(answer) for answer in answers] == ["0", "1", "2", "three", "4"]


async def test_an_outage_fails_the_whole_batch_at_once() -> None:
    tries: list[int] = []

    async def flush(items: Sequence[int]) -> list[int]:
        tries.append(len(items))
        raise TurnstileError("away")

    call = Batcher(flush, limit=10)

    answers = await all_of(*(call(item) for item in range(5)))

    assert all(isinstance(answer, TurnstileError) for answer in answers)
    assert tries == [5]


def ends_of(flush: Flush, *, limit: int) -> list[asyncio.Future[int]]:
    """The ends of three calls, on the event loop of a worker, which goes on after an exit."""
    loop = WorkerLoop()
    waiting: list[asyncio.Future[int]] = []

    async def ask() -> None:
        call = Batcher(flush, limit=limit)
        waiting.extend(call(item) for item in range(3))
        await asyncio.wait(waiting, timeout=20)

    loop.run_until_complete(ask())
    loop.close()
    return waiting


async def exit_at_once(_: Sequence[int]) -> list[int]:
    raise SystemExit


async def exit_alone(items: Sequence[int]) -> list[int]:
    if len(items) > 1:
        raise ValueError("try singly")
    raise SystemExit


@pytest.mark.parametrize("flush", [exit_at_once, exit_alone])
def test_no_caller_waits_for_a_batch_that_an_exit_has_ended(flush: Flush) -> None:
    assert [future.cancelled() for future in ends_of(flush, limit=10)] == [True] * 3


@pytest.mark.parametrize("ending", [SystemExit, asyncio.CancelledError])
def test_an_exit_or_a_cancel_ends_its_own_batch_and_no_other(ending: type[BaseException]) -> None:
    async def flush(items: Sequence[int]) -> list[int]:
        if 0 in items:
            raise ending
        return list(items)

    first, *others = ends_of(flush, limit=1)

    assert first.cancelled()
    assert [future.done() and future.result() for future in others] == [1, 2]


async def test_the_item_of_a_cancelled_caller_is_still_flushed() -> None:
    flush = Recorder()
    call = Batcher(flush, limit=10)
    flush.gate.clear()
    first = asyncio.ensure_future(call(1))
    await turn_loop()
    impatient = asyncio.ensure_future(call(2))
    patient = asyncio.ensure_future(call(3))
    await turn_loop()
    impatient.cancel()
    first.cancel()
    await turn_loop()
    flush.gate.set()

    assert await all_of(patient) == [6]
    assert flush.batches == [[1], [2, 3]]
    assert impatient.cancelled()


async def test_a_cancelled_caller_does_not_disturb_the_retry_of_single_items() -> None:
    flush_began = asyncio.Event()
    gate = asyncio.Event()

    async def flush(items: Sequence[int]) -> list[int]:
        flush_began.set()
        await gate.wait()
        if len(items) > 1:
            raise ValueError("try singly")
        return list(items)

    call = Batcher(flush, limit=10)
    gone, stays = asyncio.ensure_future(call(1)), asyncio.ensure_future(call(2))
    await flush_began.wait()
    gone.cancel()
    gate.set()

    assert await all_of(stays) == [2]


async def test_an_item_that_arrives_as_the_last_flush_ends_is_served() -> None:
    for steps in range(12):
        flush = Recorder()
        call = Batcher(flush, limit=1)
        first = asyncio.ensure_future(call(1))
        await turn_loop(steps)

        assert await all_of(call(2), first) == [4, 2]


@pytest.mark.parametrize("patience_seconds", [0.0, 60.0])
async def test_many_callers_at_random_moments_are_all_served(patience_seconds: float) -> None:
    call = Batcher(Recorder(), limit=3, lanes=2, patience_seconds=patience_seconds)

    async def caller(number: int) -> int:
        await turn_loop(number * 7 % 11)
        return await call(number)

    answers = await all_of(*(caller(number) for number in range(300)))

    assert answers == [number * 2 for number in range(300)]


async def test_a_flush_with_too_few_results_fails_its_callers() -> None:
    async def flush(items: Sequence[int]) -> list[int]:
        return []

    call = Batcher(flush, limit=10)

    with pytest.raises(AssertionError, match="0 results for 1 items"):
        await asyncio.wait_for(call(1), 10)
