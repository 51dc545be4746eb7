"""A Redis that may be down: what callers get, when nothing is sent, and the log lines."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
import structlog.testing
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis import guarded as guarded_module
from turnstile.backends.redis.guarded import CALLS, GuardedRedis
from turnstile.backends.redis.redis_client import Command, NodeAwayError, RedisClient, Send

GET: list[Command] = [("GET", "k"), ("GET", "l")]
AWAY = RedisConnectionError("refused")


class Scripted(RedisClient):
    """Responds with `answer`, once `go` is set."""

    def __init__(self) -> None:
        self.answer: Any = "v"
        self.calls = 0
        self.left = 0
        self.answer_turns = 0
        self.go = asyncio.Event()
        self.go.set()

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        self.calls += 1
        await self.go.wait()
        await let_the_loop_turn(self.answer_turns)
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
def guarded(client: Scripted) -> GuardedRedis:
    """Its circuit, once open, stays open."""
    return GuardedRedis("lock", client, 0.05, Circuit(first_pause_seconds=600, longest_pause_seconds=600))


async def test_after_an_outage_nothing_is_sent(guarded: GuardedRedis, client: Scripted) -> None:
    client.answer = AWAY

    assert await guarded.run(GET) == [AWAY, AWAY]
    assert await guarded.run(GET) is None
    assert client.calls == 1


async def test_a_call_that_is_sent_even_if_away_ends_the_outage(guarded: GuardedRedis, client: Scripted) -> None:
    client.answer = AWAY
    await guarded.run(GET)
    client.answer = "back"

    assert await guarded.run(GET, even_if_away=True) == ["back", "back"]
    assert await guarded.run(GET) == ["back", "back"]


async def test_calls_that_fail_together_are_one_log_line_and_each_failed_probe_is_another(client: Scripted) -> None:
    at_once = GuardedRedis("lock", client, 1.0, circuit=Circuit(first_pause_seconds=0.0, longest_pause_seconds=0.0))
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


async def test_an_error_of_a_command_is_not_an_outage(guarded: GuardedRedis, client: Scripted) -> None:
    client.answer = ResponseError("OOM")
    with structlog.testing.capture_logs() as logged:
        assert await guarded.run(GET) == [client.answer] * 2
        assert await guarded.run(GET) is not None

    assert [(line["event"], line["error"]) for line in logged] == [("lock.redis_refuses", "ResponseError: OOM")]
    assert client.left == 0


async def test_refusals_are_one_line_in_five_seconds_and_another_reason_is_one_at_once(
    guarded: GuardedRedis, client: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for now, answer in (
        (0.0, "OOM a"),
        (4.9, "OOM b"),
        (4.9, "WRONGTYPE c"),
        (9.8, "WRONGTYPE d"),
        (9.9, "WRONGTYPE e"),
    ):
        monkeypatch.setattr(time, "monotonic", lambda now=now: 1000.0 + now)
        client.answer = ResponseError(answer)
        with structlog.testing.capture_logs() as logged:
            await guarded.run(GET)
        said.append([line["error"] for line in logged])

    assert said == [["ResponseError: OOM a"], [], ["ResponseError: WRONGTYPE c"], [], ["ResponseError: WRONGTYPE e"]]


async def test_a_refusal_is_logged_with_the_code_that_redis_py_cuts_off(
    guarded: GuardedRedis, client: Scripted
) -> None:
    client.answer = OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")
    with structlog.testing.capture_logs() as logged:
        await guarded.run(GET)

    assert [line["error"] for line in logged] == [
        "OutOfMemoryError: OOM command not allowed when used memory > 'maxmemory'."
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        ReadOnlyError("You can't write against a read only replica."),
        ResponseError("Error running script: -READONLY You can't write against a read only replica."),
    ],
    ids=["since-redis-7", "before"],
)
async def test_the_connections_to_a_demoted_server_are_closed(
    guarded: GuardedRedis, client: Scripted, refusal: ResponseError
) -> None:
    client.answer = refusal

    await guarded.run(GET)

    assert client.left == 1


async def test_a_node_that_is_away_opens_no_circuit_for_the_others(guarded: GuardedRedis, client: Scripted) -> None:
    client.answer = NodeAwayError("a")
    with structlog.testing.capture_logs() as logged:
        await guarded.run(GET)

    assert await guarded.run(GET) is not None
    assert logged == []


async def test_calls_beyond_the_limit_wait_for_one_timeout(guarded: GuardedRedis, client: Scripted) -> None:
    client.go.clear()
    under_way = [asyncio.create_task(guarded.run(GET)) for _ in range(CALLS)]
    await let_the_loop_turn(1)

    assert await guarded.run(GET) is None
    client.go.set()

    assert await asyncio.gather(*under_way) == [["v", "v"]] * CALLS
    assert client.calls == CALLS


async def test_a_call_that_waited_behind_a_failed_one_is_not_sent(guarded: GuardedRedis, client: Scripted) -> None:
    client.answer = AWAY
    client.go.clear()
    calls = [asyncio.create_task(guarded.run(GET)) for _ in range(CALLS + 1)]
    await let_the_loop_turn(1)
    client.go.set()

    assert await asyncio.gather(*calls) == [*[[AWAY, AWAY]] * CALLS, None]
    assert client.calls == CALLS


@pytest.mark.parametrize("how", Cancel)
async def test_a_call_that_is_cancelled_at_any_await_gives_its_place_back(
    client: Scripted, how: Cancel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call() -> list[Any] | None:
        return await guarded.run(GET)

    monkeypatch.setattr(guarded_module, "CALLS", 1)
    guarded = GuardedRedis("lock", client, 60.0)
    client.answer_turns = 3

    async for _ in cancel_at_each_await(call, how, call):
        async with asyncio.timeout(10):
            assert await call() == ["v", "v"]
