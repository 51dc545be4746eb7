"""Handlers get the right history while Redis is flushed, stopped and started."""

import asyncio
from typing import Any

import redis

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.stacks.stack import Stack
from turnstile.queries.session_messages import read_history

ASK = {"do": "history", "limit": 5}


async def shown(product: Product) -> list[tuple[Any, Any]]:
    """For each answered turn: what its handler was shown, and what it should have been shown."""
    pairs = []
    for row in await product.rows("status = 'SUCCEEDED'"):
        said = await read_history(product.database, "t", row["session_id"], limit=4, before_seq=row["seq"])
        [reply] = await read_history(product.database, "t", row["session_id"], limit=1, before_seq=row["seq"] + 1)
        pairs.append((reply.content, [*(one.content for one in said), ASK]))
    return pairs


async def test_a_flush_and_a_restart_of_redis_change_no_history(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    workers = [start_worker(), start_worker()]
    client = redis.Redis.from_url(stack.redis.url)
    for session in ("a", "b"):
        await product.submit(*[ASK] * 2, session=session)
    await product.ended()

    client.flushall()
    await product.submit(*[ASK] * 2, session="a")
    await product.ended()
    assert sum(len(worker.said("history.rebuilt")) for worker in workers) == 1

    await asyncio.to_thread(stack.redis.stop)
    try:
        for session in ("a", "b"):
            await product.submit(*[ASK] * 2, session=session)
        await product.ended(within=60)
    finally:
        await asyncio.to_thread(stack.redis.start)
    for session in ("a", "b"):
        await product.submit(*[ASK] * 2, session=session)
    await product.ended()

    pairs = await shown(product)
    assert len(pairs) == 14
    assert [was for was, _ in pairs] == [should for _, should in pairs]
    await product.check_sessions()
