"""Hints about cancels: every listener receives them, and no failure ends a listener."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
import redis.asyncio
import structlog.testing

from tests.support.probes import until
from tests.support.redis_hands import OwnCancelHints
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.process.redis_clients import connect_lock
from turnstile.streaming.cancel_hints import CancelHints, listen


class Listening:
    def __init__(self, settings: Settings, redis: GuardedRedis) -> None:
        self.heard: list[UUID] = []
        self.task = asyncio.create_task(listen(settings, redis, self.heard.append))


@pytest.fixture
async def redis_lock(settings: Settings) -> AsyncIterator[GuardedRedis]:
    made = connect_lock(settings)
    yield made
    await made.close()


@pytest.fixture
async def listening(settings: Settings, redis_lock: GuardedRedis) -> AsyncIterator[Listening]:
    made = Listening(settings, redis_lock)
    yield made
    made.task.cancel()


@pytest.fixture
async def hints(settings: Settings) -> AsyncIterator[CancelHints]:
    made = OwnCancelHints(settings)
    yield made
    await made.close()


async def heard(hints: CancelHints, listening: Listening) -> None:
    """Publishes hints until one is received: the listener may not be subscribed yet."""
    turn_id = uuid4()

    async def tried() -> bool:
        await hints.publish([turn_id])
        return turn_id in listening.heard

    await until(tried)


async def test_hints_of_another_deployment_are_not_received(
    settings: Settings, hints: CancelHints, listening: Listening
) -> None:
    theirs = OwnCancelHints(settings.model_copy(update={"redis_prefix": "theirs:"}))
    turn_id = uuid4()
    await heard(hints, listening)

    await theirs.publish([turn_id])
    await heard(hints, listening)

    assert turn_id not in listening.heard
    await theirs.close()


@pytest.mark.parametrize(
    "published",
    ["nonsense", b"\xff\xfe\x00"],
    ids=["no id", "no UTF-8"],
)
async def test_a_malformed_hint_is_ignored(
    settings: Settings, keys: redis.asyncio.Redis, hints: CancelHints, listening: Listening, published: str | bytes
) -> None:
    await heard(hints, listening)
    connections = await keys.client_list(_type="pubsub")

    await keys.publish(f"{settings.redis_prefix}hints:cancel", published)

    await heard(hints, listening)
    assert not listening.task.done()
    # The same connection: a listener that had to connect again would have missed hints meanwhile.
    assert {one["id"] for one in await keys.client_list(_type="pubsub")} <= {one["id"] for one in connections}


async def test_an_error_in_the_callback_does_not_end_the_listener(
    settings: Settings, redis_lock: GuardedRedis, hints: CancelHints
) -> None:
    heeded: list[UUID] = []

    def heed(turn_id: UUID) -> None:
        heeded.append(turn_id)
        if len(heeded) == 1:
            raise LookupError("a bug of ours")

    task = asyncio.create_task(listen(settings, redis_lock, heed))

    async def heeded_again() -> bool:
        await hints.publish([uuid4()])
        return len(heeded) > 1

    with structlog.testing.capture_logs() as logged:
        await until(heeded_again)
    assert "hints.failed" in [line["event"] for line in logged]
    assert not task.done()
    task.cancel()
