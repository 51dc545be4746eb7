"""Redis does not respond; it refuses writes without a replica; later it is full of what others have left, and is emptied."""

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.runbooks.reader import Reader
from tests.support.stacks.stack import Stack
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(reader: Reader, stack: Stack, keys: Redis) -> None:
    stack.redis.stop()
    try:
        seen = await reader.up_to("turnstile doctor", code=ExitCode.UNAVAILABLE)
    finally:
        stack.redis.start()
    assert "service-unreachable" in seen.out

    assert "available" in (await reader.up_to("aws elasticache describe-replication-groups")).out
    await keys.config_set("min-replicas-to-write", 1)
    with pytest.raises(ResponseError, match="NOREPLICAS"):
        await keys.set("large", "x")
    assert "connected_slaves:0" in (await reader.up_to('redis-cli -u "$REDIS_URL" INFO replication')).out
    await reader.up_to('redis-cli -u "$REDIS_URL" config set min-replicas-to-write 0')
    await keys.set("large", "x" * 100_000)
    assert "used_memory:" in (await reader.up_to('redis-cli -u "$TURNSTILE_MEMORY_REDIS_URL" INFO')).out
    assert "large" in (await reader.up_to('redis-cli -u "$TURNSTILE_MEMORY_REDIS_URL" --bigkeys')).out
    await reader.up_to('redis-cli -u "$REDIS_URL" FLUSHALL')
    assert await keys.dbsize() == 0

    await reader.to_the_end()
