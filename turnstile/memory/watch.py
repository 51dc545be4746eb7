"""The memory watch: how full and how well the memory's Redis is (H6, H10). One in each worker, for it is there that items are
written, and one beside a relay of its own, which tells of it where functions write and cannot.

At 80 % it warns, at 90 % it alerts, one log line for each change of level. What it sees takes effect where items are written:
low priorities are kept for the shortest time first, and then not at all.
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
    """The memory's Redis as it answered just now; 0 for what it does not tell."""

    response_seconds: float
    used_bytes: int
    max_bytes: int
    """0: no limit is set, or none is told, and nothing is watched."""
    clients: int
    operations: int
    """Commands since its start."""
    hits: int
    misses: int
    evicted: int
    """Keys that it dropped by itself for want of room."""
    expired: int

    @property
    def used_ratio(self) -> float | None:
        """Used by allowed memory; None without a limit."""
        return self.used_bytes / self.max_bytes if self.max_bytes else None


class MemoryWatch:
    """Looks every few seconds. `pressure` and `health` are what it saw last."""

    def __init__(self, redis: Guarded) -> None:
        self._redis = redis
        self.pressure = Pressure.NONE
        self.health: MemoryHealth | None = None
        """None: it did not answer."""

    async def run(self, stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Looks again and again until `stopping`. No failure ends it, and none of it reaches what runs beside it."""
        while not stopping.is_set():
            try:
                await self.look()
            except Exception:
                # A bug of ours, or an answer of a Redis that we don't know. Nobody's turn is worth it.
                log.exception("memory.watch_failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(every_seconds):
                    await stopping.wait()

    async def look(self) -> MemoryHealth | None:
        """The health check: asks now, and judges the pressure. None if Redis is away; the pressure is then as it was."""
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
