"""Counts the requests of callers in windows of time, in Redis, for all processes together.

The library `limits` counts: each of its scripts is atomic. It takes redis-py's asyncio client, but neither `RedisClient` nor its
bounds. So this module gives it a pool like those of all other calls, and bounds the calls: how many at a time, how long each, and
none for a while after one that Redis did not answer.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import RedisClusterStorage, RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from redis.exceptions import ReadOnlyError, RedisClusterException

from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.connect import cluster_options, open_pool
from turnstile.backends.redis.guarded import CALLS
from turnstile.backends.redis.redis_client import OUTAGES, tell_refusal
from turnstile.backends.redis.redis_url import RedisKind, read
from turnstile.backends.window_count import Count, Counted, Window
from turnstile.telemetry.backend_health import health_of
from turnstile.telemetry.own_log import log

# redis-py raises IndexError for a cluster in which no node has any slots.
_FAILURES = (*OUTAGES, RedisClusterException, IndexError)


class WindowCounts:
    """A client for one event loop; it connects on first use. `prefix` begins each of its keys."""

    def __init__(self, url: str, timeout_seconds: float, prefix: str, circuit: Circuit | None = None) -> None:
        storage, self._leave, self._close = _open(url, timeout_seconds, prefix)
        self._fixed = FixedWindowRateLimiter(storage)
        self._sliding = SlidingWindowCounterRateLimiter(storage)
        self._timeout_seconds = timeout_seconds
        self._places = asyncio.Semaphore(CALLS)
        self._circuit = circuit or Circuit()
        self._health = health_of("redis_memory")

    async def spend(self, window: Window, caller: Counted) -> Count | None:
        """Counts one request; a sliding window does not count a request that it refuses.

        None if Redis does not answer in time, refuses the call, or did so a moment ago. It may have counted the request.
        """
        if not self._circuit.allows(time.monotonic()):
            return None
        was_open = self._circuit.is_open
        limiter = self._sliding if window.sliding else self._fixed
        item: RateLimitItem = RateLimitItemPerSecond(window.limit, window.seconds, namespace=window.name)
        try:
            async with asyncio.timeout(self._timeout_seconds), self._places:
                allowed = await limiter.hit(item, *caller)
                stats = await limiter.get_window_stats(item, *caller)
        except _FAILURES as error:
            await self._note_failure(error, was_open=was_open)
            return None
        self._circuit.succeeded()
        self._health.responded()
        return Count(allowed, max(0, stats.remaining), max(1, math.ceil(stats.reset_time - time.time())))

    async def close(self) -> None:
        await self._close()

    async def _note_failure(self, error: Exception, *, was_open: bool) -> None:
        # Among concurrent calls only the first failure is logged, and later each failed probe.
        if was_open or not self._circuit.is_open:
            log.warning("rates.redis_away", error=f"{type(error).__name__}: {tell_refusal(error)}")
        self._circuit.failed(time.monotonic())
        self._health.failed()
        if isinstance(error, ReadOnlyError):
            # The server was the primary. Behind a DNS name a new connection reaches the new one.
            await self._leave()


async def _nothing() -> None:
    """A cluster's client follows a slot that has moved."""


def _open(
    url: str, timeout_seconds: float, prefix: str
) -> tuple[RedisStorage, Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    """The library's storage, what leaves its idle connections, and what closes all."""
    found = read(url)
    given: dict[str, Any] = {"implementation": "redispy", "key_prefix": prefix}
    if found.kind is RedisKind.CLUSTER:
        hosts = ",".join(f"{host}:{port}" for host, port in found.addresses)
        storage = RedisClusterStorage(
            f"async+redis+cluster://{hosts}", **given, **cluster_options(found, timeout_seconds)
        )
        bridge: Any = storage.bridge
        return storage, _nothing, bridge.get_connection().aclose
    pool = open_pool(url, timeout_seconds)
    # With a pool, the library reads no address from the URL.
    return (
        RedisStorage("async+redis://", **given, connection_pool=pool),
        lambda: pool.disconnect(inuse_connections=False),
        pool.aclose,
    )
