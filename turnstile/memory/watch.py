"""The memory watch: the fill level of the memory's Redis. Each worker has one, because workers write items, and so
has each invocation of a function. A relay in its own process has one, too: functions export no metrics.

At 80 % it warns, at 90 % it alerts, with one log line for each change of level. The level takes effect in the writes: items of
low priority are kept for the shortest time at first, and then not at all.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import suppress

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.memory.kinds import Pressure, judge
from turnstile.telemetry.metrics import REDIS_INFO, REDIS_MEMORY_RATIO, REDIS_RESPONSE
from turnstile.telemetry.own_log import log

EVERY_SECONDS = 10.0
ROLE = "memory"
FACTS = (
    "used_memory", "used_memory_peak", "maxmemory", "mem_fragmentation_ratio", "connected_clients", "blocked_clients",
    "instantaneous_ops_per_sec", "total_commands_processed", "keyspace_hits", "keyspace_misses", "evicted_keys",
    "expired_keys", "total_net_input_bytes", "total_net_output_bytes", "uptime_in_seconds",
)  # fmt: skip
"""The values of INFO that are measured."""


class MemoryWatch:
    """Checks every few seconds. `pressure` is the last result."""

    def __init__(self, redis: GuardedRedis) -> None:
        self._redis = redis
        self.pressure = Pressure.NONE

    async def run(self, stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Checks again and again until `stopping`. No failure ends it or affects other tasks."""
        while not stopping.is_set():
            try:
                await self.look()
            except Exception:
                # A defect of this program, or a response of an unknown Redis. It must not affect turns.
                log.exception("memory.watch_failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(every_seconds):
                    await stopping.wait()

    async def look(self) -> None:
        """Updates the pressure. It stays as it was while Redis is away."""
        asked_at = time.monotonic()
        primaries = await self._redis.info()
        if not primaries:
            for gauge in (REDIS_MEMORY_RATIO, REDIS_RESPONSE, REDIS_INFO):
                gauge.forget()
            return
        response_seconds = time.monotonic() - asked_at
        # Of several primaries, the fullest one runs out first. Without a limit, or if a managed Redis reports none, no level
        # is reached.
        fullest = max(primaries, key=_fullness)
        used, limit = int(fullest.get("used_memory", 0)), int(fullest.get("maxmemory", 0))
        ratio = used / limit if limit else None
        before, self.pressure = self.pressure, judge(self.pressure, ratio)
        if before is not self.pressure:
            self._log(before, used_bytes=used, max_bytes=limit)
        # Last: a fact that can't be read must not keep the level from taking effect.
        REDIS_RESPONSE.set(response_seconds, ROLE)
        _measure(fullest, ratio)

    def _log(self, before: Pressure, **facts: int) -> None:
        match self.pressure:
            case Pressure.CRITICAL:
                log.error("memory.critical", before=before.name.lower(), **facts)
            case Pressure.HIGH:
                log.warning("memory.high", before=before.name.lower(), **facts)
            case Pressure.NONE:
                log.info("memory.relieved", before=before.name.lower(), **facts)


def _fullness(info: Mapping[str, str]) -> float:
    return int(info.get("used_memory", 0)) / (int(info.get("maxmemory", 0)) or math.inf)


def _measure(info: Mapping[str, str], ratio: float | None) -> None:
    if ratio is None:
        REDIS_MEMORY_RATIO.forget()
    else:
        REDIS_MEMORY_RATIO.set(ratio, ROLE)
    for fact in FACTS:
        if fact in info:
            REDIS_INFO.set(float(info[fact]), ROLE, fact)
