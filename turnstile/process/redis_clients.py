"""The Redis clients of a process: one for each of its two servers, shared by all users of that server."""

from dataclasses import dataclass

from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings


def connect_lock(settings: Settings) -> GuardedRedis:
    """A client of the server with the session locks, for one event loop. The heartbeat's thread has a separate client."""
    seconds = settings.redis_timeout_seconds
    return GuardedRedis("lock", connect(settings.redis_url, seconds), seconds)


def connect_memory(settings: Settings) -> GuardedRedis:
    """A client of the server with histories, memories and events, for one event loop."""
    seconds = settings.redis_timeout_seconds
    return GuardedRedis("memory", connect(settings.memory_redis, seconds), seconds)


@dataclass(frozen=True, slots=True)
class RedisClients:
    """Both clients. They are separate even for one server: many memory calls must not delay a lock."""

    lock: GuardedRedis
    memory: GuardedRedis

    @classmethod
    def open(cls, settings: Settings) -> "RedisClients":
        return cls(connect_lock(settings), connect_memory(settings))

    async def close(self) -> None:
        await self.lock.close()
        await self.memory.close()
