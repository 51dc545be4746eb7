"""`ctx.memory` in whole turns: over workers, crashes of Redis and attempts that are lost."""

from typing import Any

import redis

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.examples.conversations import load
from turnstile.examples.eliza_engine import replay


async def answers(product: Product, session: str = "s") -> list[Any]:
    """What was answered in a session, in order."""
    rows = await product.fetch(
        "SELECT m.content FROM messages m JOIN turns t ON t.id = m.turn_id"
        f" WHERE m.role = 'assistant' AND t.session_id = '{session}' ORDER BY t.seq"
    )
    return [row["content"] for row in rows]


async def test_later_turns_find_what_one_turn_keeps(product: Product, start_worker: StartWorker) -> None:
    for _ in range(2):
        start_worker(TURNSTILE_HANDLER="tests.e2e.handlers:remember_in_thread")

    await product.submit(*[{"do": "remember", "say": n} for n in range(4)])
    await product.submit({"do": "remember"}, session="other")
    await product.ended()

    assert await answers(product) == [{"calls": n + 1, "kept": True, "draft": n - 1 if n else None} for n in range(4)]
    assert await answers(product, "other") == [{"calls": 1, "kept": True, "draft": None}]


async def test_a_worker_without_a_relay_notices_that_redis_fills_up(start_worker: StartWorker, stack: Stack) -> None:
    client = redis.Redis.from_url(stack.redis.url)
    used, limit = client.info("memory")["used_memory"], client.config_get("maxmemory")["maxmemory"]
    client.config_set("maxmemory", int(used / 0.85))
    try:
        worker = start_worker(TURNSTILE_RELAY="false")
        await until(lambda: worker.said("memory.high") or worker.said("memory.critical"))
    finally:
        client.config_set("maxmemory", limit)
        client.close()


async def test_the_bundled_handler_answers_as_ever_while_redis_is_flushed(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    start_worker(TURNSTILE_HANDLER="turnstile.examples.eliza:respond")
    conversations = load()[:3]
    client = redis.Redis.from_url(stack.redis.url)
    for conversation in conversations:
        await product.submit(*conversation.remarks, session=conversation.name)
        client.flushall()
    await product.ended(within=60)
    client.close()

    for conversation in conversations:
        assert await answers(product, conversation.name) == replay(conversation.remarks)
