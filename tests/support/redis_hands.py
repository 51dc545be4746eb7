"""Parts of the product with a client of Redis for themselves, which they close; in a process they share one."""

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.memory.item_cache import ItemCache
from turnstile.process.redis_clients import RedisClients, connect_lock, connect_memory
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.streaming.event_hints import EventHints
from turnstile.streaming.stream import EventReader, EventWriter
from turnstile.worker.session_lock import SessionLock


class Own:
    """Closes the client of its part."""

    redis: GuardedRedis | RedisClients

    async def close(self) -> None:
        await self.redis.close()


class OwnSessionLock(Own, SessionLock):
    def __init__(self, settings: Settings) -> None:
        self.redis = connect_lock(settings)
        super().__init__(settings, self.redis)


class OwnItemCache(Own, ItemCache):
    def __init__(self, settings: Settings) -> None:
        self.redis = connect_memory(settings)
        super().__init__(settings, self.redis, contents=read_contents(settings))


class OwnEventWriter(Own, EventWriter):
    def __init__(self, settings: Settings) -> None:
        self.redis = connect_memory(settings)
        super().__init__(settings, self.redis, read_contents(settings))


class OwnEventReader(Own, EventReader):
    def __init__(self, settings: Settings) -> None:
        self.redis = connect_memory(settings)
        super().__init__(self.redis, read_contents(settings))


class OwnEventHints(EventHints):
    def __init__(self, settings: Settings) -> None:
        self.redis = connect_memory(settings)
        super().__init__(self.redis)

    async def close(self) -> None:
        await super().close()
        await self.redis.close()


class OwnCancelHints(Own, CancelHints):
    def __init__(self, settings: Settings) -> None:
        self.redis = RedisClients.open(settings)
        super().__init__(settings, self.redis)
