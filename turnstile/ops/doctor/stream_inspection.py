"""Finds the highest fence in the streams of events, for operators."""

from contextlib import suppress

from turnstile.backends.redis.operator_client import operator_client
from turnstile.backends.redis.redis_client import raise_first, script
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventId, MalformedEventIdError, match_streams

BATCH = 100

LAST_ID = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return last[1] and last[1][1]
"""


async def highest_fence(settings: Settings, most: int) -> int:
    """The highest fence in the last events of `most` streams; 0 if there are none. Changes nothing.

    Goes through the key space in small steps, as SCAN does. Raises RedisUnreachableError.
    """
    highest = 0
    async with operator_client(settings.memory_redis) as client:
        keys: list[str] = []
        async for key in client.scan(match_streams(settings.redis_prefix)):
            keys.append(key)
            if len(keys) == most:
                break
        for start in range(0, len(keys), BATCH):
            commands = [script(LAST_ID, [key]) for key in keys[start : start + BATCH]]
            # None: the stream has expired since the scan.
            for last in raise_first(await client.run(commands)):
                # An id that no worker can have made says nothing of the fences.
                with suppress(MalformedEventIdError):
                    highest = max(highest, 0 if last is None else EventId.parse(last).fence)
    return highest
