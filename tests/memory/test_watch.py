"""The memory watch on the real Redis, whose limit is set so that it is nearly full."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import pytest
import redis.asyncio

from tests.memory.session_memory import Room, at_once
from tests.support.metric_readings import reading, rising
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.memory.item import Verdict
from turnstile.memory.item_cache import ItemCache
from turnstile.memory.kinds import KINDS, Pressure
from turnstile.memory.watch import FACTS, MemoryWatch
from turnstile.memory.working_memory import WorkingMemory
from turnstile.process.redis_clients import connect_memory


class Full:
    """A Redis whose limit is moved so that its use is a given part of it."""

    def __init__(self, keys: redis.asyncio.Redis) -> None:
        self._keys = keys

    async def limit(self) -> int:
        return int((await self._keys.config_get("maxmemory"))["maxmemory"])

    async def to(self, ratio: float) -> None:
        used = (await self._keys.info("memory"))["used_memory"]
        await self._keys.config_set("maxmemory", int(used / ratio) if ratio else 0)


@pytest.fixture
async def full(keys: redis.asyncio.Redis) -> AsyncIterator[Full]:
    made = Full(keys)
    limit = await made.limit()
    yield made
    await keys.config_set("maxmemory", limit)


@pytest.fixture
async def guarded(settings: Settings) -> AsyncIterator[GuardedRedis]:
    opened = connect_memory(settings)
    yield opened
    await opened.close()


@pytest.fixture
def watch(guarded: GuardedRedis) -> MemoryWatch:
    return MemoryWatch(guarded)


async def test_the_stack_s_own_redis_has_a_limit_that_the_watch_measures(watch: MemoryWatch) -> None:
    await watch.look()

    assert 0 < (reading("turnstile_redis_memory_ratio", role="memory") or 0) < 0.5


async def test_each_level_is_logged_once_and_left_with_some_slack(
    watch: MemoryWatch, full: Full, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for ratio in (0.5, 0.83, 0.83, 0.93, 0.88, 0.77, 0.5, 0):
        await full.to(ratio)
        await watch.look()
        seen.append(watch.pressure)

    none, high, critical = Pressure
    assert seen == [none, high, high, critical, critical, high, none, none]
    lines = capsys.readouterr().out
    assert [lines.count(event) for event in ("memory.high", "memory.critical", "memory.relieved")] == [2, 1, 1]


async def test_low_priorities_are_kept_for_the_shortest_time_and_then_not_at_all(
    room: Room, settings: Settings, guarded: GuardedRedis, full: Full, watch: MemoryWatch
) -> None:
    cache = ItemCache(settings, guarded, lambda: watch.pressure)
    memory = WorkingMemory(cache, room.database, room.turn, at_once)
    await memory.set("old", 1, priority=2)
    await memory.set("safe", 1, priority=1, kind="fact")

    await full.to(0.83)
    await watch.look()
    await memory.set("low", 1, priority=3, ttl=3600)
    await memory.set("usual", 1, priority=4, ttl=3600)
    lasts = {item.key: item.expires_in_seconds for item in await memory.find()}
    assert lasts["low"] <= KINDS["item"].lifetime.shortest < 3000 < lasts["usual"]

    await full.to(0.93)
    await watch.look()
    assert (await memory.set("low too", 1, priority=3)).verdict is Verdict.NOT_KEPT
    assert sorted(item.key for item in await memory.find()) == ["safe", "usual"]
    assert not await room.half_items()


async def test_what_redis_says_of_itself_is_measured(watch: MemoryWatch, full: Full, keys: redis.asyncio.Redis) -> None:
    await full.to(0.5)
    await watch.look()

    assert 0.4 < (reading("turnstile_redis_memory_ratio", role="memory") or 0) < 0.6
    assert 0 < (reading("turnstile_redis_response_seconds", role="memory") or 0) < 60
    said = await keys.info()
    measured = {fact: reading("turnstile_redis_info", role="memory", fact=fact) for fact in FACTS}
    assert {fact for fact, value in measured.items() if value is None} == set()
    assert measured["used_memory_peak"] == said["used_memory_peak"]

    await full.to(0)
    await watch.look()
    assert reading("turnstile_redis_memory_ratio", role="memory") is None


async def test_what_pressure_does_to_writes_is_counted(
    room: Room, settings: Settings, guarded: GuardedRedis, watch: MemoryWatch
) -> None:
    memory = WorkingMemory(ItemCache(settings, guarded, lambda: watch.pressure), room.database, room.turn, at_once)
    cut = "turnstile_memory_writes_cut_total"

    with rising(cut, 1, level="high"), rising(cut, 2, level="critical"):
        for level in Pressure:
            watch.pressure = level
            await memory.set("low", 1, priority=1)
            await memory.set("usual", 1, priority=5)
            await memory.set("safe", 1, priority=1, kind="fact")
        await memory.set("low too", 1, priority=3)


async def test_what_can_t_be_measured_keeps_no_level_from_taking_effect(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd:
        async def info(self) -> list[dict[str, str]]:
            return [{"used_memory": "95", "maxmemory": "100", "uptime_in_seconds": "for long"}]

    watch = MemoryWatch(cast("GuardedRedis", Odd()))
    with suppress(ValueError):
        await watch.look()

    assert watch.pressure is Pressure.CRITICAL
    assert "memory.critical" in capsys.readouterr().out


async def test_without_redis_nothing_old_is_shown(watch: MemoryWatch, stack: Stack) -> None:
    await watch.look()
    await asyncio.to_thread(stack.redis.stop)
    try:
        await watch.look()
        assert reading("turnstile_redis_info", role="memory", fact="used_memory") is None
    finally:
        await asyncio.to_thread(stack.redis.start)


async def test_without_redis_the_level_stays(watch: MemoryWatch, stack: Stack) -> None:
    watch.pressure = Pressure.HIGH
    await asyncio.to_thread(stack.redis.stop)
    try:
        await watch.look()
        assert watch.pressure is Pressure.HIGH
    finally:
        await asyncio.to_thread(stack.redis.start)


async def test_a_failed_look_does_not_end_the_watch(guarded: GuardedRedis, capsys: pytest.CaptureFixture[str]) -> None:
    looks = 0

    class Breaking(MemoryWatch):
        async def look(self) -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise KeyError("used_memory")

    watch = Breaking(guarded)
    stopping = asyncio.Event()
    running = asyncio.create_task(watch.run(stopping, every_seconds=0.001))
    await until(lambda: looks > 1)
    stopping.set()
    await running

    assert capsys.readouterr().out.count("] memory.watch_failed") == 1
