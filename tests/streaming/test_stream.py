"""The stream of a turn's events in Redis: fenced, without gaps, and of bounded size and life."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import redis.asyncio

from tests.support.redis_hands import OwnEventWriter
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import Command
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind, Saying, numbered
from turnstile.streaming.stream import Append, Appended, EventWriter


@pytest.fixture
async def writer(settings: Settings) -> AsyncIterator[EventWriter]:
    opened = OwnEventWriter(settings)
    yield opened
    await opened.close()


def append(settings: Settings, fence: int, first: int, *kinds: EventKind) -> Append:
    return Append(f"{settings.redis_prefix}stream", numbered(fence, first, [Saying(kind, "{}") for kind in kinds]))


STATUS, DELTA, RESET = EventKind.STATUS, EventKind.DELTA, EventKind.RESET


async def test_an_append_of_a_superseded_worker_is_refused(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    assert await writer.append(append(settings, 7, 1, STATUS)) is Appended.APPENDED
    assert await writer.append(append(settings, 9, 1, STATUS)) is Appended.APPENDED
    assert await writer.append(append(settings, 7, 2, DELTA)) is Appended.SUPERSEDED
    assert await writer.append(append(settings, 7, 2, RESET)) is Appended.SUPERSEDED
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["9-1"]
    assert 0 < await keys.ttl(f"{settings.redis_prefix}stream") <= settings.events_ttl_seconds


async def test_a_repeated_append_changes_nothing(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    for _ in range(2):
        assert await writer.append(append(settings, 7, 1, STATUS, DELTA)) is Appended.APPENDED
    for _ in range(2):
        assert await writer.append(append(settings, 7, 3, DELTA, DELTA)) is Appended.APPENDED
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-1", "7-2", "7-3", "7-4"]


async def test_an_append_after_a_gap_is_refused(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    assert await writer.append(append(settings, 7, 3, DELTA)) is Appended.LOST
    assert await writer.append(append(settings, 7, 3, RESET, DELTA)) is Appended.APPENDED
    assert await writer.append(append(settings, 7, 6, DELTA)) is Appended.LOST
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-3", "7-4"]


async def test_an_append_that_begins_again_drops_earlier_events(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    await writer.append(append(settings, 7, 1, STATUS, DELTA))
    await writer.append(append(settings, 7, 3, RESET))
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-3"]


async def test_a_key_of_another_type_fails_only_its_own_append(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    await keys.set(f"{settings.redis_prefix}stream", "not a stream")
    other = Append(f"{settings.redis_prefix}other", append(settings, 7, 1, STATUS).events)
    answers = await asyncio.gather(writer.append(append(settings, 7, 1, STATUS)), writer.append(other))
    assert answers == [Appended.AWAY, Appended.APPENDED]


LARGE = Saying(EventKind.CUSTOM, f'"{"x" * 600_000}"')


def large_appends(settings: Settings) -> list[Append]:
    return [Append(f"{settings.redis_prefix}large-{turn}", numbered(7, 1, [LARGE])) for turn in range(12)]


async def test_large_appends_are_split_into_calls_of_a_bounded_size(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    run = GuardedRedis.run

    async def note(redis: GuardedRedis, commands: Sequence[Command]) -> list[Any] | None:
        calls.append(sum(len(str(word)) for command in commands for word in command[4:]))
        return await run(redis, commands)

    monkeypatch.setattr(GuardedRedis, "run", note)
    wanted = large_appends(settings)

    assert await asyncio.gather(*map(writer.append, wanted)) == [Appended.APPENDED] * 12

    assert max(calls) < 2_000_000
    assert [await keys.xlen(one.key) for one in wanted] == [1] * 12


async def test_an_outage_between_such_calls_keeps_the_first_results(
    settings: Settings, writer: EventWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GuardedRedis.run
    calls = 0

    async def answer_once(redis: GuardedRedis, commands: Sequence[Command]) -> list[Any] | None:
        nonlocal calls
        calls += 1
        return await run(redis, commands) if calls == 1 else None

    monkeypatch.setattr(GuardedRedis, "run", answer_once)

    answers = await asyncio.gather(*map(writer.append, large_appends(settings)))

    assert answers[0] is Appended.APPENDED
    assert answers[-1] is Appended.AWAY
