"""Requests are counted in Redis, for all processes together; while it is away, nothing waits long and nothing is raised."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.window_counts import WindowCounts
from turnstile.backends.window_count import Count, Window

PATIENCE_SECONDS = 20.0
SLIDING = Window("sliding", limit=10, seconds=600, sliding=True)
FIXED = Window("fixed", limit=10, seconds=600, sliding=False)
ACME = ("acme",)

Open = Callable[..., WindowCounts]


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as cable:
        yield cable


@pytest.fixture
async def process(stack: Stack) -> AsyncIterator[Open]:
    """What one process counts with. All of a test use the same keys."""
    prefix = f"{uuid4().hex[:8]}:rates"
    async with AsyncExitStack() as opened:

        def connect(port: int | None = None, seconds: float = PATIENCE_SECONDS) -> WindowCounts:
            url = stack.redis.url if port is None else at_port(stack.redis.url, port)
            counts = WindowCounts(url, seconds, prefix, Circuit(first_pause_seconds=0.01, longest_pause_seconds=0.01))
            opened.push_async_callback(counts.close)
            return counts

        yield connect


@pytest.mark.parametrize("window", [SLIDING, FIXED], ids=lambda window: window.name)
async def test_processes_together_allow_no_more_than_the_limit(process: Open, window: Window) -> None:
    """At the same time: each count is one step of Redis."""
    processes = [process(), process()]

    counts = await asyncio.gather(*(processes[number % 2].spend(window, ACME) for number in range(25)))

    assert sum(count.allowed for count in counts if count is not None) == window.limit
    assert len([count for count in counts if count is not None]) == 25


@pytest.mark.parametrize("window", [SLIDING, FIXED], ids=lambda window: window.name)
async def test_a_count_says_how_many_are_left_and_when_there_are_more(process: Open, window: Window) -> None:
    counts = process()

    spent = [await counts.spend(window, ACME) for _ in range(window.limit + 1)]

    assert [count and count.remaining for count in spent] == [*range(9, -1, -1), 0]
    assert [count and count.allowed for count in spent] == [True] * 10 + [False]
    assert all(count is not None and 0 < count.free_in_seconds <= window.seconds for count in spent)


async def test_callers_are_counted_apart(process: Open) -> None:
    counts = process()
    one = Window("one", limit=1, seconds=600, sliding=True)

    spent = [await counts.spend(one, caller) for caller in (("a",), ("a",), ("b",), ("a", "b"))]

    assert [count and count.allowed for count in spent] == [True, False, True, True]


async def test_a_window_that_is_used_up_is_free_again_when_it_says_so(process: Open) -> None:
    counts = process()
    short = Window("short", limit=1, seconds=1, sliding=True)
    assert (await counts.spend(short, ACME)) == Count(True, 0, 1)

    async def allowed() -> bool:
        count = await counts.spend(short, ACME)
        return count is not None and count.allowed

    await until(allowed)


async def test_a_silent_redis_is_waited_for_once_and_used_again_later(process: Open, cable: Cable) -> None:
    counts = process(cable.port, seconds=0.2)
    await counts.spend(SLIDING, ACME)
    cable.silent = True

    with capture_logs() as logs:
        assert await asyncio.gather(*(counts.spend(SLIDING, ACME) for _ in range(50))) == [None] * 50
        assert [line["event"] for line in logs] == ["rates.redis_away"]

    cable.silent = False

    async def answered() -> Count | None:
        return await counts.spend(SLIDING, ACME)

    await until(answered)


async def test_a_redis_that_refuses_connections_is_no_error(process: Open, cable: Cable) -> None:
    await cable.cut()

    assert await process(cable.port).spend(FIXED, ACME) is None
