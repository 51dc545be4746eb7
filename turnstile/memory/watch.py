"""The memory watch: fill level and health of the memory's Redis (H6, H10). Each worker has one, because workers write items. A
relay in its own process has one, too: where functions write items, they can't report it.

At 80 % it warns, at 90 % it alerts, with one log line for each change of level. The level takes effect in the writes: items of
low priority are kept for the shortest time at first, and then not at all.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

import structlog

from turnstile.backends.redis.guarded import Guarded
from turnstile.memory.kinds import Pressure
from turnstile.memory.pressure import judge

EVERY_SECONDS = 10.0

log = structlog.get_logger("turnstile.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHealth:
    """The last response of the memory's Redis; 0 for values that it does not report."""

    response_seconds: float
    used_bytes: int
    max_bytes: int
    """0: no limit is set or reported, so the level is not watched."""
    clients: int
    operations: int
    """Commands since its start."""
    hits: int
    misses: int
    evicted: int
    """Keys that Redis dropped by itself because memory was short."""
    expired: int

    @property
    def used_ratio(self) -> float | None:
        """Used memory divided by the limit; None without a limit."""
        return self.used_bytes / self.max_bytes if self.max_bytes else None


class MemoryWatch:
    """Checks every few seconds. `pressure` and `health` are the last results."""

    def __init__(self, redis: Guarded) -> None:
        self._redis = redis
        self.pressure = Pressure.NONE
        self.health: MemoryHealth | None = None
        """None: Redis did not respond."""

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

    async def look(self) -> MemoryHealth | None:
        """Runs the health check and updates the pressure. None if Redis is away; the pressure then stays as it was."""
        self.health = await self._ask()
        if self.health is not None:
            self._note(judge(self.pressure, self.health.used_ratio), self.health)
        return self.health

    async def _ask(self) -> MemoryHealth | None:
        began = time.monotonic()
        if (facts := await self._redis.info()) is None:
            return None
        return MemoryHealth(
            response_seconds=time.monotonic() - began,
            used_bytes=facts["used_memory"],
            max_bytes=facts["maxmemory"],
            clients=facts["connected_clients"],
            operations=facts["total_commands_processed"],
            hits=facts["keyspace_hits"],
            misses=facts["keyspace_misses"],
            evicted=facts["evicted_keys"],
            expired=facts["expired_keys"],
        )

    def _note(self, now: Pressure, health: MemoryHealth) -> None:
        if now is self.pressure:
            return
        before, self.pressure = self.pressure, now
        facts = {"used_bytes": health.used_bytes, "max_bytes": health.max_bytes, "before": before.name.lower()}
        match now:
            case Pressure.CRITICAL:
                log.error("memory.critical", **facts)
            case Pressure.HIGH:
                log.warning("memory.high", **facts)
            case Pressure.NONE:
                log.info("memory.relieved", **facts)
