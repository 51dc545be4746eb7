"""The product's uses of Redis, and sessions that are spread over all nodes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from tests.support.redis_hands import OwnSessionLock
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.memory.item_cache import ItemCache
from turnstile.memory.watch import MemoryWatch
from turnstile.process.redis_clients import RedisClients
from turnstile.streaming.event_hints import EventHints
from turnstile.streaming.stream import EventReader, EventWriter
from turnstile.worker.session_lock import LockedSession, SessionLock, name_lock

SESSIONS = [f"s-{number}" for number in range(30)]


class PatientSettings(Settings):
    """The tests share the machine with others: that a server is slow for a moment is not what they are about."""

    @property
    def redis_timeout_seconds(self) -> float:
        """Longer than any lease would allow."""
        return 20.0


class HastySettings(Settings):
    """Where servers are killed on purpose, they need not be waited for that long."""

    @property
    def redis_timeout_seconds(self) -> float:
        """Long enough for one that lives."""
        return 3.0


def settings_for(url: str, kind: type[Settings] = PatientSettings) -> Settings:
    """All that needs Redis finds it there, under a prefix of its own."""
    return kind(
        redis_url=url,
        queues=(QueueSettings(name="turns"),),
        redis_prefix=f"{uuid4().hex[:8]}:",
        lease_seconds=20.0,
    )


@dataclass(frozen=True, slots=True)
class Hands:
    settings: Settings
    redis: RedisClients
    lock: SessionLock
    extender: OwnSessionLock
    """The heartbeat's."""
    writer: EventWriter
    reader: EventReader
    hints: EventHints
    items: ItemCache
    watch: MemoryWatch

    def locks(self, token: str) -> list[LockedSession]:
        return [name_lock(self.settings, "t", session, token) for session in SESSIONS]


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Hands]:
    redis = RedisClients.open(settings)
    hands = Hands(
        settings,
        redis,
        SessionLock(settings, redis.lock),
        OwnSessionLock(settings),
        EventWriter(settings, redis.memory),
        EventReader(redis.memory),
        EventHints(redis.memory),
        ItemCache(settings, redis.memory),
        MemoryWatch(redis.memory),
    )
    async with AsyncExitStack() as stack:
        for each in (redis, hands.extender, hands.hints):
            stack.push_async_callback(each.close)
        yield hands
