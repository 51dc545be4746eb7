"""A function whose Redis runs full keeps no items of low priority, as a worker process does."""

import redis.asyncio

from tests.support.probes import until
from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.handlers.context import Context, Turn
from turnstile.memory.item import Verdict

BALLAST_BYTES = 40_000_000


async def test_a_function_keeps_nothing_of_low_priority_in_a_full_redis(site: Site, keys: redis.asyncio.Redis) -> None:
    async def remember(_: Turn, ctx: Context) -> str:
        async def is_refused() -> bool:
            return (await ctx.memory.set("low", 1, priority=1)).verdict is Verdict.NOT_KEPT

        # The first look of the invocation's watch is made while its first turns run.
        await until(is_refused)
        usual = await ctx.memory.set("usual", 1)
        return usual.verdict.value

    limit = (await keys.config_get("maxmemory"))["maxmemory"]
    # Beside it, what is left of the limit is room for the connections of the test.
    await keys.setrange("ballast", BALLAST_BYTES, "x")
    used = (await keys.info("memory"))["used_memory"]
    await keys.config_set("maxmemory", int(used / 0.93))
    try:
        await site.send("a")
        await site.invoke(1, site.function(remember))
    finally:
        await keys.config_set("maxmemory", limit)
        await keys.delete("ballast")

    assert await site.rows("status") == [("SUCCEEDED",)]
    [reply] = await site.database.fetch("SELECT content FROM messages WHERE role = 'assistant'", {})
    assert reply["content"] == Verdict.KEPT.value
