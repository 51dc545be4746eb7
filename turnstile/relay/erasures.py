"""Goes on with what is being erased, beside the relay's rounds. So an erasure ends, also if its caller is gone."""

import asyncio
from contextlib import suppress

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.keys import RedisAwayError, SessionKeysInRedis
from turnstile.relay.fault_isolation import alone
from turnstile.telemetry.own_log import log

EVERY_SECONDS = 2.0


class Erasures:
    """The loop. Any number of processes may run it."""

    def __init__(self, database: Database, redis: GuardedRedis, settings: Settings) -> None:
        self._eraser = Eraser(database, SessionKeysInRedis(redis, settings.redis_prefix))

    async def run(self, stopping: asyncio.Event) -> None:
        """Runs until `stopping`. Each step is short, and one that fails is repeated."""
        while not stopping.is_set():
            more = await alone("erase", self.step())
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0 if more else EVERY_SECONDS):
                    await stopping.wait()

    async def step(self) -> bool:
        """True if another erasure may be due at once. Raises DatabaseUnavailableError."""
        try:
            return await self._eraser.step()
        except RedisAwayError as error:
            log.warning("erasure.redis_away", error=str(error))
            return False
