"""A conversation whose every answer is what its handler was shown, while Redis forgets, stops and comes back."""

import asyncio
from typing import Any

import redis

from tests.conftest import ROOT
from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.stacks.stack import Stack
from turnstile.examples.conversations import load
from turnstile.queries.history import read_history

ASK = {"do": "history", "limit": 5}


async def shown(product: Product) -> list[tuple[Any, Any]]:
    """For each answered turn: what its handler was shown, and what it should have been shown."""
    pairs = []
    for row in await product.rows("status = 'SUCCEEDED'"):
        said = await read_history(product.database, "t", row["session_id"], limit=4, before_seq=row["seq"])
        [reply] = await read_history(product.database, "t", row["session_id"], limit=1, before_seq=row["seq"] + 1)
        pairs.append((reply.content, [*(one.content for one in said), ASK]))
    return pairs


async def test_every_turn_of_a_drain_is_shown_what_was_said_before_and_postgres_is_not_asked(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()
    await product.submit(*[ASK] * 12)
    await product.ended()

    pairs = await shown(product)
    assert len(pairs) == 12
    assert [was for was, _ in pairs] == [should for _, should in pairs]
    assert worker.said("history.rebuilt") == []
    await product.check_sessions()


async def test_the_bundled_handler_says_what_its_golden_transcripts_say_although_redis_forgets(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    start_worker(TURNSTILE_HANDLER="turnstile.examples.eliza:respond")
    client = redis.Redis.from_url(stack.redis.url)
    conversation = load()[0]
    half = len(conversation.remarks) // 2
    for remarks in (conversation.remarks[:half], conversation.remarks[half:]):
        await product.submit(*remarks)
        await product.ended()
        client.flushall()

    said = await read_history(product.database, "t", "s", limit=100)
    replies = [one.content for one in said if one.role == "assistant"]
    golden = (ROOT / "tests" / "golden" / "eliza" / f"{conversation.name}.txt").read_text("utf-8")
    assert conversation.transcript(replies) == golden


async def test_a_redis_that_forgets_stops_and_starts_changes_no_answer(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    workers = [start_worker(), start_worker()]
    client = redis.Redis.from_url(stack.redis.url)
    for session in ("a", "b"):
        await product.submit(*[ASK] * 3, session=session)
    await product.ended()

    client.flushall()
    await product.submit(*[ASK] * 3, session="a")
    await product.ended()
    assert sum(len(worker.said("history.rebuilt")) for worker in workers) == 1

    await asyncio.to_thread(stack.redis.stop)
    try:
        for session in ("a", "b"):
            await product.submit(*[ASK] * 3, session=session)
        await product.ended(within=60)
    finally:
        await asyncio.to_thread(stack.redis.start)
    for session in ("a", "b"):
        await product.submit(*[ASK] * 3, session=session)
    await product.ended()

    pairs = await shown(product)
    assert len(pairs) == 21
    assert [was for was, _ in pairs] == [should for _, should in pairs]
    await product.check_sessions()
