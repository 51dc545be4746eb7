"""A session and its memory as a test has them in hand: turns that follow each other, time that passes, and what is in Redis."""

from collections.abc import Awaitable, Callable
from typing import Any

import redis.asyncio

from tests.support.claims import claim_one, expire_leases, settle_one, submit_turns
from tests.support.probes import until
from tests.support.redis_hands import OwnItemCache
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory.working_memory import WorkingMemory
from turnstile.turn.claimed_turn import ClaimedTurn

# Time passes by moving the stored times: the server's clock can't be set. Heads and contexts begin with their end.
SHIFT = """
for _, key in ipairs({KEYS[1], KEYS[3]}) do
    local stored = redis.call('HGETALL', key)
    for n = 1, #stored, 2 do
        local ends, rest = string.match(stored[n + 1], '^(%d+)( .*)$')
        if ends then redis.call('HSET', key, stored[n], string.format('%.0f', ends - ARGV[1]) .. rest) end
    end
end
for place = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[place])
    if left >= 0 then redis.call('PEXPIRE', KEYS[place], string.format('%.0f', left - ARGV[1])) end
end
"""


async def at_once(call: Callable[[], Awaitable[Any]]) -> Any:
    """An `retry_while_down` that waits for nothing."""
    return await call()


class Room:
    """Session `s` of tenant `t`."""

    def __init__(self, settings: Settings, database: Database, keys: redis.asyncio.Redis) -> None:
        self.settings = settings
        self.database = database
        self.keys = keys
        self.cache = OwnItemCache(settings)
        self._unreachable = OwnItemCache(settings.model_copy(update={"memory_redis_url": "redis://127.0.0.1:1/0"}))
        self.turn: ClaimedTurn
        self.memory: WorkingMemory

    async def close(self) -> None:
        await self.cache.close()
        await self._unreachable.close()

    async def start_over(self) -> None:
        await self.forget()
        await self.database.fetch("TRUNCATE turns, messages, turn_attempts, sessions, memory_items", {})
        await self.begin()

    async def begin(self) -> WorkingMemory:
        await submit_turns(self.database, self.settings, "hello")
        return await self.claim()

    async def claim(self, worker: str = "worker-a") -> WorkingMemory:
        """Whatever turn is due, claimed: a first time, or taken over."""

        async def claimed() -> ClaimedTurn | None:
            # There is none while a write has the row locked.
            found = await claim_one(self.database, self.settings, worker, max_crashes=100)
            return found if isinstance(found, ClaimedTurn) else None

        turn = await until(claimed)
        assert turn is not None
        return await self.adopt(turn)

    async def adopt(self, turn: ClaimedTurn) -> WorkingMemory:
        self.turn = turn
        self.memory = WorkingMemory(self.cache, self.database, self.turn, at_once)
        return self.memory

    def cut_off(self) -> WorkingMemory:
        """The present turn's memory, as a worker has it that does not reach Redis."""
        return WorkingMemory(self._unreachable, self.database, self.turn, at_once)

    async def take_over(self) -> WorkingMemory:
        await expire_leases(self.database)
        return await self.claim("worker-b")

    async def go_on(self) -> WorkingMemory:
        await settle_one(self.database, self.settings, self.turn)
        return await self.begin()

    @property
    def names(self) -> list[str]:
        return self.cache.session("t", "s", 0).keys

    def name(self, what: str) -> str:
        return next(name for name in self.names if name.endswith(f":{what}"))

    async def pass_time(self, seconds: float) -> None:
        """For all that is remembered, in Redis and in Postgres."""
        await self.keys.eval(SHIFT, len(self.names), *self.names, str(int(seconds * 1000)))
        await self.database.fetch(
            "UPDATE memory_items SET expires_at = expires_at - make_interval(secs => %(seconds)s)", {"seconds": seconds}
        )

    async def forget(self) -> None:
        """What a flush does to this session."""
        await self.keys.delete(*self.names)

    async def rows(self) -> list[dict[str, Any]]:
        """The durable items, deleted ones too."""
        return await self.database.fetch("SELECT * FROM memory_items ORDER BY kind, key", {})

    async def half_items(self) -> set[str]:
        """The items of which Redis has only the head or only the value."""
        heads = {field for field in await self.keys.hkeys(self.name("heads")) if field}
        return heads ^ set(await self.keys.hkeys(self.name("values")))
