"""The clients of Redis that a process has: one for each of its two servers, shared by all who use that server."""

from dataclasses import dataclass

from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings


def connect_lock(settings: Settings) -> Guarded:
    """A client of the server that has the session locks, for one event loop. The heartbeat's thread has one of its own."""
    seconds = settings.redis_timeout_seconds
    return Guarded("lock", connect(settings.redis_url, seconds), seconds)


def connect_memory(settings: Settings) -> Guarded:
    """A client of the server that has histories, memories and events, for one event loop."""
    seconds = settings.redis_timeout_seconds
    return Guarded("memory", connect(settings.memory_redis, seconds), seconds, calls=settings.memory_connections)


@dataclass(frozen=True, slots=True)
class RedisClients:
    """Both. Two clients also where both are one server: a crowd of memory calls must not delay a lock."""

    lock: Guarded
    memory: Guarded

    @classmethod
    def open(cls, settings: Settings) -> "RedisClients":
        """Connects when they are first used."""
        return cls(connect_lock(settings), connect_memory(settings))

    async def close(self) -> None:
        """Closes all connections."""
        await self.lock.close()
        await self.memory.close()
