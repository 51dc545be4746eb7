"""Lanes: few calls at a time, and the tenants take turns."""

import asyncio
from typing import cast

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn, stand_still, until
from turnstile.backends.postgres.database import Database
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.http.problems import Kind
from turnstile.producer.sharing.fair_lanes import FairLanes, FairPool
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError

HANGS_SECONDS = 20.0


class Calls:
    """Calls through the lanes, each of which ends when the test says so."""

    def __init__(self, lanes: FairLanes) -> None:
        self.lanes = lanes
        self.order: list[str] = []
        self._go_on = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, *tenants: str) -> None:
        """One call of each, in this order."""
        for tenant in tenants:
            self._tasks.append(asyncio.create_task(self._call(tenant)))
            await let_the_loop_turn(3)

    async def _call(self, tenant: str) -> None:
        async with self.lanes.enter(tenant):
            self.order.append(tenant)
            await self._go_on.acquire()

    async def end_all(self) -> None:
        for _ in self._tasks:
            self._go_on.release()
        async with asyncio.timeout(HANGS_SECONDS):
            await asyncio.gather(*self._tasks)


async def test_as_many_calls_run_as_there_are_lanes() -> None:
    calls = Calls(FairLanes(2))
    await calls.begin("a", "a", "a")

    assert calls.order == ["a", "a"]
    await calls.end_all()
    assert calls.order == ["a", "a", "a"]


async def test_the_tenants_take_turns() -> None:
    calls = Calls(FairLanes(1))
    await calls.begin(*["a"] * 5, "b", "b", "c")

    await calls.end_all()

    assert calls.order == ["a", "a", "b", "c", "a", "b", "a", "a"]


@pytest.mark.parametrize("how", Cancel)
async def test_a_call_that_is_cancelled_at_any_await_leaves_its_lane(how: Cancel) -> None:
    lanes = FairLanes(1)

    async def pass_through() -> None:
        async with lanes.enter("a"):
            await let_the_loop_turn(3)

    async for _ in cancel_at_each_await(pass_through, how, pass_through):
        async with asyncio.timeout(HANGS_SECONDS):
            await pass_through()


# --- a pool


def pool_of(most_waiting: int) -> FairPool:
    """A pool of one connection."""
    return FairPool(cast("Database", object()), 1, 60.0, FairPlaces(most_waiting, "reads", shared=True))


async def hold(pool: FairPool, tenant: str, go_on: asyncio.Event, error: Exception | None = None) -> None:
    async with pool.lend(tenant):
        await go_on.wait()
        if error is not None:
            raise error


async def test_a_tenant_has_no_more_calls_at_a_pool_than_its_share() -> None:
    pool, go_on = pool_of(4), asyncio.Event()
    calls = [asyncio.create_task(hold(pool, "a", go_on)) for _ in range(3)]
    await let_the_loop_turn(3)

    with pytest.raises(NoPlaceError) as refused:
        await hold(pool, "a", go_on)
    calls.append(asyncio.create_task(hold(pool, "b", go_on)))
    go_on.set()

    assert refused.value.kind is Kind.TOO_MANY_REQUESTS
    async with asyncio.timeout(HANGS_SECONDS):
        await asyncio.gather(*calls)


async def wait_too_long(first_ends: bool, error: Exception | None = None) -> BaseException | None:
    """The error of a call that waits behind two others, of which the first may end, with this error or with a response."""
    pool, go_on, never = pool_of(100), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(hold(pool, "a", go_on, error))
    second = asyncio.create_task(hold(pool, "a", never))
    await let_the_loop_turn(3)
    pool.patience_seconds = 0.05
    late = asyncio.create_task(hold(pool, "a", never))
    await let_the_loop_turn(3)
    if first_ends:
        go_on.set()

    await until(late.done)

    go_on.set()
    second.cancel()
    await asyncio.wait({first, second})
    return late.exception()


async def test_a_call_that_waits_too_long_behind_calls_of_its_tenant_meets_overload() -> None:
    refused = await wait_too_long(first_ends=True)

    assert isinstance(refused, NoPlaceError)
    assert refused.kind is Kind.TOO_MANY_REQUESTS


async def test_a_call_that_waits_behind_one_without_a_connection_meets_overload() -> None:
    assert isinstance(await wait_too_long(True, ConnectionsBusyError("busy")), NoPlaceError)


async def test_a_call_that_waits_while_nobody_gets_a_response_meets_an_outage() -> None:
    assert isinstance(await wait_too_long(first_ends=False), DatabaseUnavailableError)
    assert isinstance(await wait_too_long(True, DatabaseUnavailableError("away")), DatabaseUnavailableError)


async def test_a_call_that_waits_while_the_process_is_late_itself_meets_overload() -> None:
    """A flood keeps the event loop busy for longer than a call may wait, and the responses have long arrived."""
    pool, response, never = pool_of(100), asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async with pool.lend("a"):
            await response.wait()
            # A driver takes some steps from the arrival of a response to its result.
            await let_the_loop_turn(20)

    reading = [asyncio.create_task(read()) for _ in range(2)]
    await let_the_loop_turn(3)
    pool.patience_seconds = 0.05
    late = asyncio.create_task(hold(pool, "a", never))
    await let_the_loop_turn(3)

    response.set()
    stand_still(0.1)
    await until(late.done)

    assert isinstance(late.exception(), NoPlaceError)
    await asyncio.gather(*reading)
