"""Durable items: under the turn's fence, in Postgres, whatever becomes of Redis."""

import asyncio
from typing import Any

import psycopg
import pytest

from tests.memory.session_memory import Room, at_once
from tests.support.claims import settle_one
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.errors import RowLockedError, SupersededError
from turnstile.memory.durable_items import prune_items
from turnstile.memory.item import MAX_ITEMS, MemoryFullError, Verdict, Write
from turnstile.memory.kinds import DAY, HOUR
from turnstile.memory.working_memory import WorkingMemory

HANGS_SECONDS = 15.0


async def value_of(memory: WorkingMemory, key: str, kind: str = "fact") -> Any:
    item = await memory.get(key, kind=kind)
    return item and item.value


# --- fenced


@pytest.mark.parametrize("end", ["settled", "taken over"])
async def test_a_superseded_turn_writes_nothing(room: Room, memory: WorkingMemory, end: str) -> None:
    await memory.set("visitor", "Ann", kind="fact")
    if end == "settled":
        await settle_one(room.database, room.settings, room.turn)
    else:
        await room.take_over()
    before = await room.rows()

    with pytest.raises(SupersededError):
        await memory.set("visitor", "Bob", kind="fact")
    with pytest.raises(SupersededError):
        await memory.delete("visitor", kind="fact")

    assert await room.rows() == before
    assert await value_of(memory, "visitor") == "Ann"


async def test_a_write_does_not_wait_for_a_row_locked_by_another_transaction(room: Room, memory: WorkingMemory) -> None:
    """A connection that waits is missing to all other turns of the worker."""
    await memory.set("visitor", "Ann", kind="fact")
    url = room.settings.database_url
    async with (
        Database(
            DatabasePlace(url), "test", size=1, statement_timeout_seconds=600, lock_timeout_seconds=600
        ) as patient,
        await psycopg.AsyncConnection.connect(url) as other,
    ):
        await other.execute("SELECT FROM turns FOR NO KEY UPDATE")
        blocked = WorkingMemory(room.cache, patient, room.turn, at_once)
        async with asyncio.timeout(HANGS_SECONDS):
            with pytest.raises(RowLockedError):
                await blocked.set("visitor", "Bob", kind="fact")
            with pytest.raises(RowLockedError):
                await blocked.delete("visitor", kind="fact")
        await other.rollback()

    await memory.set("guest", "Cid", kind="fact")
    assert [await value_of(memory, key) for key in ("visitor", "guest")] == ["Ann", "Cid"]


async def test_a_volatile_write_of_an_older_claim_is_refused_where_a_newer_one_has_written(
    room: Room, memory: WorkingMemory
) -> None:
    await memory.set("draft", "old")
    heir = await room.take_over()
    await heir.set("draft", "new")

    for late in (
        memory.set("draft", "late"),
        memory.delete("draft"),
        memory.open_context("c"),
        memory.end_context("c"),
    ):
        with pytest.raises(SupersededError):
            await late
    assert await value_of(heir, "draft", "item") == "new"


async def test_a_write_and_a_takeover_at_once_leave_one_order(room: Room) -> None:
    """Either the write is refused, or the turn that took over sees it."""
    for n in range(10):
        first = room.memory
        written, heir = await asyncio.gather(first.set("x", n, kind="fact"), room.take_over(), return_exceptions=True)
        assert not isinstance(heir, BaseException)
        if isinstance(written, BaseException):
            assert isinstance(written, SupersededError)
            assert await value_of(heir, "x") != n
        else:
            assert await value_of(heir, "x") == n


# --- repeated after a lost response


@pytest.mark.parametrize("change", ["write", "deletion"])
async def test_a_repeated_change_finds_its_own_first_result(room: Room, memory: WorkingMemory, change: str) -> None:
    before = await memory.set("x", 0, kind="fact")
    results: list[Any] = []

    async def twice(call: Any) -> Any:
        results.append(await call())
        results.append(await call())
        return results[-1]

    repeating = WorkingMemory(room.cache, room.database, room.turn, twice)
    if change == "write":
        written = await repeating.set("x", 1, kind="fact", expected_version=before.version)
        assert written.version == results[0][0].version
    else:
        assert await repeating.delete("x", kind="fact", expected_version=before.version)

    assert [change.version for change in results[0]] == [change.version for change in results[1]]
    assert await value_of(repeating, "x") == (1 if change == "write" else None)


# --- Redis away


async def test_while_redis_is_down_durable_items_are_read_and_written_and_others_are_not(
    room: Room, memory: WorkingMemory, stack: Stack
) -> None:
    await memory.set("visitor", "Ann", kind="fact", tags=["name"])
    await memory.set("draft", "x")

    await asyncio.to_thread(stack.redis.stop)
    try:
        written = await memory.set_many([Write(key="draft", value="y"), Write(key="visitor", value="Bob", kind="fact")])
        assert [one.verdict for one in written] == [Verdict.NOT_KEPT, Verdict.KEPT]
        assert (await value_of(memory, "visitor"), await value_of(memory, "draft", "item")) == ("Bob", None)
        assert not await memory.set("visitor", "Cid", kind="fact", expected_version=written[1].version + 1)
        assert await memory.set("tea", True, kind="fact", expected_version=0)
        assert [item.key for item in await memory.find()] == ["tea", "visitor"]
        assert await memory.invalidate(kind="fact", before_version=written[1].version + 1) == 1
        assert not await memory.delete("draft")
        assert await memory.contexts() == {}
        assert not await memory.open_context("c")
        async with memory.changes() as changes:
            assert [change async for change in changes] == []
    finally:
        await asyncio.to_thread(stack.redis.start)

    async def kept() -> bool:
        return bool(await memory.set("draft", "z"))

    await until(kept)
    assert [await value_of(memory, key) for key in ("visitor", "tea")] == [None, True]
    assert not await room.half_items()


async def test_a_redis_without_room_costs_nothing_durable(room: Room, memory: WorkingMemory) -> None:
    limit = (await room.keys.config_get("maxmemory"))["maxmemory"]
    await room.keys.config_set("maxmemory", "1")
    try:
        assert await memory.set("visitor", "Ann", kind="fact")
        assert (await memory.set("draft", "x")).verdict is Verdict.NOT_KEPT
        assert await value_of(memory, "visitor") == "Ann"
    finally:
        await room.keys.config_set("maxmemory", limit)


# --- bounds and ends


async def test_durable_items_are_bounded_in_number_and_in_all(memory: WorkingMemory) -> None:
    for start in range(0, MAX_ITEMS, 100):
        await memory.set_many([Write(key=f"k{n}", value=n, kind="fact") for n in range(start, start + 100)])
    with pytest.raises(MemoryFullError):
        await memory.set("one too many", 1, kind="fact")
    assert await memory.set("k0", "may change", kind="fact")

    with pytest.raises(MemoryFullError):
        await memory.set_many([Write(key=f"k{n}", value="x" * 100_000, kind="fact") for n in range(11)])
    assert await value_of(memory, "k1") == 1


async def test_expired_and_deleted_items_are_pruned(room: Room, memory: WorkingMemory) -> None:
    await memory.set("short", 1, kind="fact", ttl=HOUR)
    await memory.set("long", 1, kind="fact", ttl=2 * DAY)
    await memory.set("gone", 1, kind="fact")
    await memory.delete("gone", kind="fact")
    await room.pass_time(HOUR + 61)

    assert await prune_items(room.database) is False

    assert [row["key"] for row in await room.rows()] == ["long"]


async def test_items_of_other_tenants_are_not_visible(room: Room, memory: WorkingMemory) -> None:
    await memory.set("x", 1, kind="fact")
    await room.database.fetch(
        "INSERT INTO memory_items SELECT 'u', session_id, kind, 'theirs', content, context, priority, tags, version,"
        " write_id, fence, created_at, updated_at, expires_at FROM memory_items",
        {},
    )
    await room.forget()

    assert [item.key for item in await memory.find(kind="fact")] == ["x"]
