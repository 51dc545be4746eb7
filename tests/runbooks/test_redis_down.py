"""Redis does not respond; later it is full of what others have left, and is emptied."""

from redis.asyncio import Redis

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

    await keys.set("large", "x" * 100_000)
    assert "available" in (await reader.up_to("aws elasticache describe-replication-groups")).out
    assert "used_memory:" in (await reader.up_to('redis-cli -u "$TURNSTILE_MEMORY_REDIS_URL" INFO')).out
    assert "large" in (await reader.up_to('redis-cli -u "$TURNSTILE_MEMORY_REDIS_URL" --bigkeys')).out
    await reader.up_to('redis-cli -u "$REDIS_URL" FLUSHALL')
    assert await keys.dbsize() == 0

    await reader.to_the_end()
