"""A Redis that may be away: what its callers are given then, how long it is left alone, and what the log says."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog.testing
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from tests.support.probes import let_the_loop_turn
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.client import Command, NodeAwayError, RedisClient, Send
from turnstile.backends.redis.guarded import Guarded

GET: list[Command] = [("GET", "k"), ("GET", "l")]
AWAY = RedisConnectionError("refused")


class Scripted(RedisClient):
    """Answers as it is told to; `waits` for `go`."""

    def __init__(self) -> None:
        self.answer: Any = "v"
        self.calls = 0
        self.left = 0
        self.go = asyncio.Event()
        self.go.set()

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        self.calls += 1
        await self.go.wait()
        if self.answer is AWAY:
            raise AWAY
        return [self.answer for _ in commands]

    async def primaries(self) -> list[Send]:
        return [self.run]

    def pubsub(self) -> Any:
        raise NotImplementedError

    def leave(self) -> None:
        self.left += 1

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.fixture
def client() -> Scripted:
    return Scripted()


@pytest.fixture
def guarded(client: Scripted) -> Guarded:
    """Once open its circuit lets no probe through."""
    return Guarded("lock", client, 0.05, calls=2, circuit=Circuit(first_pause_seconds=600, longest_pause_seconds=600))


async def test_it_gives_the_answers(guarded: Guarded) -> None:
    assert await guarded.run(GET) == ["v", "v"]


async def test_an_outage_stands_in_place_of_each_answer_and_then_redis_is_left_alone(
    guarded: Guarded, client: Scripted
) -> None:
    client.answer = AWAY

    assert await guarded.run(GET) == [AWAY, AWAY]
    assert await guarded.run(GET) is None
    assert client.calls == 1


async def test_what_is_worth_a_try_is_sent_all_the_same_and_its_answer_ends_the_outage(
    guarded: Guarded, client: Scripted
) -> None:
    client.answer = AWAY
    await guarded.run(GET)
    client.answer = "back"

    assert await guarded.run(GET, even_if_away=True) == ["back", "back"]
    assert await guarded.run(GET) == ["back", "back"]


async def test_calls_that_fail_together_are_one_line_of_the_log_and_each_probe_is_one_more(client: Scripted) -> None:
    at_once = Guarded("lock", client, 1.0, circuit=Circuit(first_pause_seconds=0.0, longest_pause_seconds=0.0))
    client.answer = AWAY
    client.go.clear()
    with structlog.testing.capture_logs() as logged:
        together = [asyncio.create_task(at_once.run(GET)) for _ in range(5)]
        await let_the_loop_turn(1)
        client.go.set()
        await asyncio.gather(*together)
        assert [line["event"] for line in logged] == ["lock.redis_away"]
        await at_once.run(GET)

    assert [line["event"] for line in logged] == ["lock.redis_away"] * 2


async def test_a_refusal_is_no_outage(guarded: Guarded, client: Scripted) -> None:
    client.answer = ResponseError("OOM")
    with structlog.testing.capture_logs() as logged:
        assert await guarded.run(GET) == [client.answer] * 2
        assert await guarded.run(GET) is not None

    assert [(line["event"], line["error"]) for line in logged] == [("lock.redis_refuses", "ResponseError: OOM")] * 2
    assert client.left == 0


async def test_a_server_that_was_demoted_is_left(guarded: Guarded, client: Scripted) -> None:
    client.answer = ResponseError("READONLY You can't write against a read only replica. script: 1")

    await guarded.run(GET)

    assert client.left == 1


async def test_a_node_that_is_away_does_not_keep_others_from_being_asked(guarded: Guarded, client: Scripted) -> None:
    client.answer = NodeAwayError("a")
    with structlog.testing.capture_logs() as logged:
        await guarded.run(GET)

    assert await guarded.run(GET) is not None
    assert logged == []


async def test_calls_beyond_the_bound_wait_and_give_up_after_a_time_out(guarded: Guarded, client: Scripted) -> None:
    client.go.clear()
    under_way = [asyncio.create_task(guarded.run(GET)) for _ in range(2)]
    await let_the_loop_turn(1)

    assert await guarded.run(GET) is None
    client.go.set()

    assert await asyncio.gather(*under_way) == [["v", "v"]] * 2
    assert await guarded.run(GET) == ["v", "v"]
    assert client.calls == 3


async def test_what_waited_for_a_call_that_failed_is_not_sent(guarded: Guarded, client: Scripted) -> None:
    client.answer = AWAY
    client.go.clear()
    calls = [asyncio.create_task(guarded.run(GET)) for _ in range(3)]
    await let_the_loop_turn(1)
    client.go.set()

    assert await asyncio.gather(*calls) == [[AWAY, AWAY], [AWAY, AWAY], None]
    assert client.calls == 2
