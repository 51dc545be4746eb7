"""Looking at the streams of events from outside, for operators: which fence was ever the highest there."""

from collections.abc import Sequence

from turnstile.backends.redis.client import OUTAGES, raise_first, script
from turnstile.backends.redis.connect import connect
from turnstile.config.settings import Settings
from turnstile.errors import TurnstileError
from turnstile.streaming.event import EventId, match_streams

BATCH = 100

LAST_ID = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return last[1] and last[1][1]
"""


class StreamsUnreadableError(TurnstileError):
    """Redis could not be asked for the streams of events."""


class StreamInspector:
    """Looks at the streams of turns without touching them. Raises StreamsUnreadableError."""

    def __init__(self, settings: Settings) -> None:
        self._pattern = match_streams(settings.redis_prefix)
        # Longer than a worker waits: a look may come late, an event may not.
        self._redis = connect(settings.memory_redis, timeout_seconds=5.0)

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def highest_fence(self, most: int) -> int:
        """Of the last events of `most` streams; 0 if there are none. Goes through the key space in small steps, as SCAN does."""
        highest = 0
        try:
            keys: list[str] = []
            async for key in self._redis.scan(self._pattern):
                keys.append(key)
                if len(keys) == most:
                    break
            for start in range(0, len(keys), BATCH):
                highest = max(highest, await self._highest_of(keys[start : start + BATCH]))
        except OUTAGES as error:
            raise StreamsUnreadableError(f"{type(error).__name__}: {error}") from error
        return highest

    async def _highest_of(self, keys: Sequence[str]) -> int:
        answers = raise_first(await self._redis.run([script(LAST_ID, [key]) for key in keys]))
        # None: it has expired since.
        return max((EventId.parse(last).fence for last in answers if last is not None), default=0)
