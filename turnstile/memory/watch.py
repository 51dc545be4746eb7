"""The memory watch: the fill level of the memory's Redis (H6, H10). Each worker has one, because workers write items. A
relay in its own process has one, too: where functions write items, they can't report it.

At 80 % it warns, at 90 % it alerts, with one log line for each change of level. The level takes effect in the writes: items of
low priority are kept for the shortest time at first, and then not at all.
"""

import asyncio
import math
from contextlib import suppress

import structlog

from turnstile.backends.redis.guarded import Guarded
from turnstile.memory.kinds import Pressure, judge

EVERY_SECONDS = 10.0

log = structlog.get_logger("turnstile.memory")


class MemoryWatch:
    """Checks every few seconds. `pressure` is the last result."""

    def __init__(self, redis: Guarded) -> None:
        self._redis = redis
        self.pressure = Pressure.NONE

    async def run(self, stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Checks again and again until `stopping`. No failure ends it or reaches the tasks beside it."""
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
        memory = await self._redis.memory()
        if not memory:
            return
        # Of several primaries, the fullest one runs out first. Without a limit, or if a managed Redis reports none, no level
        # is reached.
        used, limit = max(memory, key=lambda one: one[0] / (one[1] or math.inf))
        before, self.pressure = self.pressure, judge(self.pressure, used / limit if limit else None)
        if before is not self.pressure:
            self._log(before, used_bytes=used, max_bytes=limit)

    def _log(self, before: Pressure, **facts: int) -> None:
        match self.pressure:
            case Pressure.CRITICAL:
                log.error("memory.critical", before=before.name.lower(), **facts)
            case Pressure.HIGH:
                log.warning("memory.high", before=before.name.lower(), **facts)
            case Pressure.NONE:
                log.info("memory.relieved", before=before.name.lower(), **facts)
