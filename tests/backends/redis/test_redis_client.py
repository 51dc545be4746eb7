"""Calls of one server: responses in the order of the commands, one timeout for the whole call."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn, until
from tests.support.stacks.stack import Stack
from turnstile.backends.redis import redis_client as redis_client
from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.redis_client import RedisClient, script

PATIENCE_SECONDS = 60.0
DATABASE = 12
"""A number of its own, by which these tests find their connections in the server's list."""


@pytest.fixture
def url(stack: Stack) -> str:
    return f"{stack.redis.url.rpartition('/')[0]}/{DATABASE}"


@pytest.fixture
def outside(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url) as opened:
        opened.flushdb()
        yield opened


@pytest.fixture
async def client(url: str, outside: Any) -> AsyncIterator[RedisClient]:
    client = connect(url, PATIENCE_SECONDS)
    yield client
    await client.aclose()


def connections(outside: Any) -> set[str]:
    """The ids of the client's connections, as the server lists them."""
    mine = str(outside.client_id())
    return {one["id"] for one in outside.client_list() if one["db"] == str(DATABASE) and one["id"] != mine}


async def busy(client: RedisClient, outside: Any, calls: int) -> None:
    """Makes `calls` calls at the same time; they have ended when this returns."""
    waiting = [asyncio.create_task(client.run([("BLPOP", "said", 0)])) for _ in range(calls)]
    await until(lambda: sum(one["cmd"] == "blpop" for one in outside.client_list()) == calls)
    outside.rpush("said", *range(calls))
    await asyncio.gather(*waiting)


async def test_responses_have_the_order_of_the_commands_and_an_error_is_one_of_them(client: RedisClient) -> None:
    first, refused, last = await client.run(
        [
            script("return {KEYS[1], ARGV[1]}", ["k"], 7),
            script("return redis.call('NONSENSE')", []),
            ("GET", "absent"),
        ]
    )

    assert (first, last) == (["k", "7"], None)
    assert isinstance(refused, ResponseError)


async def test_a_cancelled_call_leaves_no_response_to_the_next_one(client: RedisClient, outside: Any) -> None:
    waiting = asyncio.create_task(client.run([("GET", "absent"), ("BLPOP", "said", 0)]))
    await until(lambda: any(one["cmd"] == "blpop" for one in outside.client_list()))

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await client.run([("RPUSH", "said", "late"), ("LLEN", "said")]) == [1, 1]


async def test_a_cancellation_is_never_lost(client: RedisClient) -> None:
    for steps in range(12):
        await client.ping()
        waiting = asyncio.create_task(client.run([("BLPOP", "absent", 0)]))
        await let_the_loop_turn(steps)

        waiting.cancel()

        done, _ = await asyncio.wait({waiting}, timeout=5.0)
        assert (done, waiting.cancelled()) == ({waiting}, True), steps


async def test_a_call_without_a_response_ends_at_its_timeout(url: str) -> None:
    client = connect(url, 0.2)

    with pytest.raises(RedisTimeoutError, match=r"0\.2 s"):
        await client.run([("BLPOP", "absent", 0)])

    await client.aclose()


async def test_idle_connections_are_closed(client: RedisClient, outside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_client, "IDLE_SECONDS", 0.2)
    await busy(client, outside, 4)

    await until(lambda: not connections(outside))

    assert await client.ping()


async def test_a_quiet_subscription_is_not_closed(
    client: RedisClient, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "IDLE_SECONDS", 0.2)
    async with client.pubsub() as channel:
        await channel.subscribe("quiet")
        await busy(client, outside, 3)
        await until(lambda: len(connections(outside)) == 1)
        outside.publish("quiet", "at last")

        async def heard() -> bool:
            message = await channel.get_message(timeout=1)
            return message is not None and message["data"] == "at last"

        await until(heard)


async def test_connections_that_the_server_has_closed_are_not_used(client: RedisClient, outside: Any) -> None:
    """As after each restart: every call on such a connection would open a circuit."""
    await busy(client, outside, 4)
    for one in connections(outside):
        outside.client_kill_filter(_id=one)
    await until(lambda: not connections(outside))

    assert await asyncio.gather(*(client.ping() for _ in range(4))) == [True] * 4


async def test_a_scan_finds_all_keys(client: RedisClient, outside: Any) -> None:
    names = {f"lock:{number}" for number in range(1500)}
    outside.mset(dict.fromkeys([*names, "other"], "1"))

    assert {key async for key in client.scan("lock:*")} == names


@pytest.mark.parametrize("how", Cancel)
async def test_a_call_that_is_cancelled_at_any_await_keeps_no_connection(
    client: RedisClient, outside: Any, how: Cancel
) -> None:
    async def call() -> list[Any]:
        return await client.run([("PING",), ("ECHO", "said")])

    async for _ in cancel_at_each_await(call, how, call):
        assert await call() == ["PONG", "said"]

    # As many as were wanted at the same time.
    await until(lambda: len(connections(outside)) <= 2)
