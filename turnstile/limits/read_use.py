"""Reads the use of limits from Redis, for operators. Changes nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnstile.backends.redis.redis_client import RedisClient, raise_first, script
from turnstile.limits.fleet_limits import limit_key

LOOK = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or nil) or 0
if redis.call('EXISTS', KEYS[1] .. ':places') == 0 then used = 0 end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1] .. ':places', '-inf', now)) do
    used = used - tonumber(string.match(member, '^%d+'))
end
local paused = tonumber(redis.call('HGET', KEYS[1], 'paused') or nil) or 0
local slot = tonumber(redis.call('ZSCORE', KEYS[1] .. ':slots', ARGV[1]) or nil) or 0
local waiting = redis.call('ZCARD', KEYS[1] .. ':waiting') + redis.call('ZCOUNT', KEYS[1] .. ':slots', now, '+inf')
return {used, waiting, math.max(0, paused - now), math.max(0, slot - now)}
"""

PARTS = (":places", ":waiting", ":slots")
"""The ends of the keys that belong to another key."""
BATCH = 100


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How much of one value of a limit is used now."""

    limit: str
    value: str
    used: int
    """Places."""
    waiting: int
    """Sessions that wait for a place, or for the time of their tokens."""
    paused_seconds: float
    """How long nothing may begin; 0: it is not paused."""
    slot_seconds: float = 0.0
    """In how long the session asked about may use its tokens; 0: now, or it has none."""


async def read_use(
    client: RedisClient, prefix: str, keys: Sequence[tuple[str, str]], session: str = ""
) -> list[LimitUse]:
    """The use of these limits and values, in their order. `session` is a tenant and a session, `tenant/session`."""
    found: list[Any] = []
    for start in range(0, len(keys), BATCH):
        some = [limit_key(prefix, *key) for key in keys[start : start + BATCH]]
        found += raise_first(await client.run([script(LOOK, [key], session) for key in some]))
    return [
        LimitUse(limit, value, max(0, used), waiting, paused / 1000, math.ceil(slot) / 1000)
        for (limit, value), (used, waiting, paused, slot) in zip(keys, found, strict=True)
    ]


async def find_values(client: RedisClient, prefix: str, limit: str, most: int) -> list[str]:
    """Values of the limit that were used lately, at most so many. Goes through the key space in small steps, as SCAN does."""
    beginning = limit_key(prefix, limit, "")
    found = []
    async for key in client.scan(f"{_literal(beginning)}*"):
        if not key.endswith(PARTS):
            found.append(key.removeprefix(beginning))
        if len(found) == most:
            break
    return sorted(found)


def _literal(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)
