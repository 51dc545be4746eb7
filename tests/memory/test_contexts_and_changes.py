"""Contexts that live while they are used (H3), and published changes (H4)."""

import asyncio
from collections.abc import AsyncIterator

import redis.asyncio

from tests.memory.session_memory import Room
from turnstile.memory.durable_items import MAX_ITEMS as MAX_DURABLE_ITEMS
from turnstile.memory.interface import MemoryChange
from turnstile.memory.item import MAX_BATCH, MAX_ITEMS, Write
from turnstile.memory.kinds import DAY, HOUR, MINUTE
from turnstile.memory.working_memory import WorkingMemory


async def take(changes: AsyncIterator[MemoryChange], many: int) -> list[tuple[str, str, str]]:
    """The next changes: what, which event, of whom."""
    async with asyncio.timeout(30):
        found = [await anext(changes) for _ in range(many)]
    return [(change.of, change.event, change.name) for change in found]


# --- contexts


async def test_a_write_opens_its_context(memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="letter")

    [(name, left)] = (await memory.contexts()).items()
    assert (name, HOUR - 60 < left <= HOUR) == ("letter", True)


async def test_a_read_or_a_write_extends_a_context(room: Room, memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="read", ttl=DAY)
    await memory.set("b", 1, context="found", ttl=DAY)
    await memory.set("c", 1, context="written", ttl=DAY)
    await memory.set("d", 1, context="idle", ttl=DAY)
    await memory.set("e", 1, context="fact", kind="fact")

    await room.pass_time(40 * MINUTE)
    await memory.get("a")
    await memory.get("e", kind="fact")
    await memory.find(context="found")
    await memory.set("c", 2, context="written")
    await room.pass_time(40 * MINUTE)

    assert sorted(await memory.contexts()) == ["fact", "found", "read", "written"]


async def test_a_context_keeps_the_time_to_live_it_was_opened_with(room: Room, memory: WorkingMemory) -> None:
    await memory.open_context("long", ttl=2 * DAY)
    await memory.open_context("short", ttl=1)
    await memory.set("a", 1, context="long", ttl=DAY)

    contexts = await memory.contexts()
    assert 2 * DAY - 60 < contexts["long"] <= 2 * DAY
    assert 14 * MINUTE < contexts["short"] <= 15 * MINUTE
    await room.pass_time(DAY - 60)
    await memory.get("a")
    assert (await memory.contexts())["long"] > 2 * DAY - 60


async def test_the_fullest_memory_is_emptied(room: Room, memory: WorkingMemory) -> None:
    for start in range(0, MAX_ITEMS, MAX_BATCH):
        several = range(start, start + MAX_BATCH)
        await memory.set_many([Write(key=f"item {n}", value=n, context="letter", priority=6) for n in several])
    for start in range(0, MAX_DURABLE_ITEMS, MAX_BATCH):
        several = range(start, start + MAX_BATCH)
        await memory.set_many([Write(key=f"{n}", value=n, kind="fact", context="letter") for n in several])

    assert await memory.end_context("letter") == MAX_ITEMS + MAX_DURABLE_ITEMS

    assert not await memory.find()
    assert not [row for row in await room.rows() if row["content"] is not None]


async def test_the_end_of_a_context_deletes_its_items(memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="letter")
    await memory.set("b", 1, context="letter", kind="fact")
    await memory.set("c", 1)

    assert await memory.end_context("letter") == 2
    assert await memory.contexts() == {}
    assert [item.key for item in await memory.find()] == ["c"]


async def test_an_item_outlives_its_unused_context(room: Room, memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="letter", ttl=DAY)

    await room.pass_time(2 * HOUR)

    assert await memory.contexts() == {}
    assert [item.key for item in await memory.find(context="letter")] == ["a"]


# --- changes


async def test_changes_are_published_to_subscribers(room: Room, memory: WorkingMemory) -> None:
    async with memory.changes() as changes:
        first = await memory.set("a", 1, context="letter")
        await memory.set("a", 2)
        await memory.set("f", 1, kind="fact")
        await memory.delete("a")
        await memory.end_context("letter")
        heard = [await anext(changes) for _ in range(2)]
        rest = await take(changes, 4)

    assert heard[1] == MemoryChange("item", "created", "item", "a", first.version)
    assert [(heard[0].of, heard[0].event, heard[0].name), *rest] == [
        ("context", "created", "letter"),
        ("item", "updated", "a"),
        ("item", "created", "f"),
        ("item", "deleted", "a"),
        ("context", "deleted", "letter"),
    ]


async def test_an_expiry_is_published_by_the_next_call(room: Room, memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="letter")
    async with memory.changes() as changes:
        await room.pass_time(2 * HOUR)
        await memory.set("b", 1)
        # After the end of the keys themselves nothing is left to publish.
        await memory.set("c", 1, context="x", ttl=60)
        await memory.set("long", 1, ttl=DAY)
        await room.pass_time(90)
        await memory.get("long")
        heard = await take(changes, 5)

    assert heard[-1] == ("item", "expired", "c")


async def test_a_publication_that_is_not_a_change_is_passed_over(
    room: Room, memory: WorkingMemory, keys: redis.asyncio.Redis
) -> None:
    async with memory.changes() as changes:
        for published in (
            "nonsense",
            b"\xff\xfe\x00",
            "[]",
            "null",
            "[" * 100_000,
            '{"of": "item"}',
            '{"of": "item", "event": "created", "name": "no kind", "version": 1}',
            '{"of": "item", "event": "created", "name": 7, "version": 1}',
            '{"of": "item", "event": "created", "name": "item:a", "version": "x"}',
            '{"of": "item", "event": "created", "name": "item:a", "version": NaN}',
            '{"of": ["item"], "event": {}, "name": "item:a"}',
        ):
            await keys.publish(f"{room.settings.redis_prefix}memory:{{t/s}}:changes", published)
        await memory.set("b", 1)

        assert await take(changes, 1) == [("item", "created", "b")]
