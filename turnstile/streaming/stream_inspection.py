"""Finds the highest fence in the streams of events, for operators."""

from collections.abc import Sequence

from turnstile.backends.redis.client import OUTAGES, RedisClient, raise_first, script
from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.ping import OPERATOR_TIMEOUT_SECONDS, RedisUnreachableError
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventId, match_streams

BATCH = 100

LAST_ID = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return last[1] and last[1][1]
"""


async def highest_fence(settings: Settings, most: int) -> int:
    """The highest fence in the last events of `most` streams; 0 if there are none. Changes nothing.

    Goes through the key space in small steps, as SCAN does. Raises RedisUnreachableError.
    """
    client = connect(settings.memory_redis, timeout_seconds=OPERATOR_TIMEOUT_SECONDS)
    highest = 0
    try:
        keys: list[str] = []
        async for key in client.scan(match_streams(settings.redis_prefix)):
            keys.append(key)
            if len(keys) == most:
                break
        for start in range(0, len(keys), BATCH):
            highest = max(highest, await _highest_of(client, keys[start : start + BATCH]))
    except OUTAGES as error:
        raise RedisUnreachableError(f"{type(error).__name__}: {error}") from error
    finally:
        await client.aclose()
    return highest


async def _highest_of(client: RedisClient, keys: Sequence[str]) -> int:
    answers = raise_first(await client.run([script(LAST_ID, [key]) for key in keys]))
    # None: the stream has expired since the scan.
    return max((EventId.parse(last).fence for last in answers if last is not None), default=0)
