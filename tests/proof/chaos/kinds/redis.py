"""Faults of Redis and of the way to it."""

import asyncio

import redis.asyncio

from tests.proof.chaos.kinds.scene import Kind, Scene, cut_off_worker, lose_responses, toxic
from tests.proof.chaos.scaled_settings import LEASE_SECONDS


async def stop(scene: Scene) -> str | None:
    """Redis is down for a while, and has forgotten everything afterwards."""
    service = scene.servers.stack.redis
    await asyncio.to_thread(service.stop)
    try:
        await scene.last(0.5, 3 * LEASE_SECONDS)
    finally:
        await asyncio.to_thread(service.start)
    return "redis"


async def restart(scene: Scene) -> str | None:
    """A crash and a restart at once: a failover to an empty replica."""
    await asyncio.to_thread(scene.servers.stack.redis.restart, immediate=True)
    return "redis"


async def flush(scene: Scene) -> str | None:
    """All locks and marks of this run are gone while workers go on with their turns."""
    times = scene.rng.randint(1, 4)
    async with redis.asyncio.Redis.from_url(scene.servers.stack.redis.url) as client:
        for _ in range(times):
            keys = [key async for key in client.scan_iter(f"{scene.servers.redis_prefix}*", count=1000)]
            if keys:
                await client.unlink(*keys)
            await scene.last(0.05, 0.5)
    return f"{times} times"


KINDS = (
    Kind("redis-down", stop, group="redis", shared=False),
    Kind("redis-restarted", restart, group="redis", shared=False),
    Kind("redis-flushed", flush),
    Kind("redis-unreachable", toxic("redis", "cut", 0.5, 2.5 * LEASE_SECONDS), group="redis"),
    Kind("redis-half-open", toxic("redis", "half_open", 0.5, 2 * LEASE_SECONDS), group="redis"),
    # The product's time-out for Redis is a tenth of the lease, 150 ms here: some calls pass and some do not.
    Kind("redis-slow", toxic("redis", "latency", 1, 4, delay=0.08, jitter=0.07), group="redis"),
    Kind("redis-drips", toxic("redis", "drip", 0.5, 2), group="redis"),
    Kind("lock-answer-lost", lose_responses("redis"), group="redis"),
    Kind(
        "worker-cut-off-from-redis",
        cut_off_worker("redis", LEASE_SECONDS + 0.5, 3 * LEASE_SECONDS),
        group="redis",
    ),
)
