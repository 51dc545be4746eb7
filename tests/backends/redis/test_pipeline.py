"""Commands that are sent to Redis together: answered in their order, each by itself, and nobody is given another's answers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError

from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.redis.connect import connect

PATIENCE_SECONDS = 60.0
DATABASE = 12
"""Of its number's own, by which the server tells its clients apart."""


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[Any]:
    url = f"{stack.redis.url.rpartition('/')[0]}/{DATABASE}"
    client: Any = connect(url, PATIENCE_SECONDS, max_connections=1)
    await client.flushdb()
    yield client
    await client.aclose()


async def test_answers_come_in_the_order_of_the_commands_and_a_refusal_in_its_place(client: Any) -> None:
    pipeline = client.pipeline(transaction=False)
    pipeline.eval("return {KEYS[1], ARGV[1]}", 1, "k", 7).eval("return redis.call('NONSENSE')", 0).get("absent")

    first, refused, last = await pipeline.execute(raise_on_error=False)

    assert (first, last) == (["k", "7"], None)
    assert isinstance(refused, ResponseError)


async def test_a_refusal_is_raised_to_who_wants_no_errors_among_the_answers(client: Any) -> None:
    pipeline = client.pipeline(transaction=False)
    pipeline.get("absent").eval("return redis.call('NONSENSE')", 0)

    with pytest.raises(ResponseError):
        await pipeline.execute()


async def test_answers_are_read_as_redis_py_reads_them(client: Any) -> None:
    await client.xadd("stream", {"kind": "delta"}, id="1-1")
    alone = await client.xrange("stream", "-", "+", count=1)

    pipeline = client.pipeline(transaction=False)
    together = await pipeline.xrange("stream", "-", "+", count=1).execute()

    assert together == [alone] == [[("1-1", {"kind": "delta"})]]


async def test_who_gave_up_waiting_leaves_no_answers_to_the_next(client: Any, stack: Stack) -> None:
    waiting = asyncio.create_task(client.run([("GET", "absent"), ("BLPOP", "said", 0)]))
    with redis.Redis.from_url(stack.redis.url) as outside:
        await until(lambda: any(one["db"] == str(DATABASE) and one["cmd"] == "blpop" for one in outside.client_list()))

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await client.run([("RPUSH", "said", "late"), ("LLEN", "said")]) == [1, 1]


async def test_a_server_that_is_away_is_redis_pys_own_error() -> None:
    client: Any = connect("redis://localhost:1/0", 1.0)

    with pytest.raises(RedisConnectionError):
        await client.pipeline(transaction=False).get("k").execute(raise_on_error=False)


async def test_what_can_not_be_packed_is_redis_pys_own_error_and_sends_nothing(client: Any) -> None:
    pipeline = client.pipeline(transaction=False)
    pipeline.eval("redis.call('SET', 'k', 'v')", 0).eval("return 1", 0, {"no": "text"})

    with pytest.raises(DataError):
        await pipeline.execute()

    assert await client.get("k") is None


async def test_a_batch_is_no_transaction(client: Any) -> None:
    with pytest.raises(ValueError, match="transactions"):
        client.pipeline(transaction=True)
