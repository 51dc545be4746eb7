"""Items of the working memory on the real Redis: kept, found, compared, invalidated, and gone in time."""

import asyncio
from typing import Any

import pytest
import redis.asyncio
from redis.crc import key_slot

from tests.memory.session_memory import Room
from tests.support.factories import nest
from turnstile.memory.item import MAX_ITEMS, MemoryFullError, Write
from turnstile.memory.kinds import HOUR, MINUTE
from turnstile.memory.working_memory import WorkingMemory


async def keys_of(memory: WorkingMemory, **query: Any) -> list[str]:
    return [item.key for item in await memory.find(**query)]


# --- kept


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("values", "no JSON"),
        ("values", "[1]"),
        ("values", "5"),
        ("heads", "9999999999999 1 x x 5 \x1fkind:item\x1f"),
    ],
)
async def test_an_item_that_no_worker_has_written_is_as_if_it_were_gone(
    room: Room, memory: WorkingMemory, part: str, value: str
) -> None:
    await memory.set("forged", 1)
    await memory.set("good", 2)
    [stored] = await room.keys.keys(f"{room.settings.redis_prefix}memory:*:{part}")
    await room.keys.hset(stored, "item:forged", value)

    assert await memory.get("forged") is None
    item = await memory.get("good")
    assert item is not None
    assert item.value == 2


@pytest.mark.parametrize("kind", ["item", "result", "state", "fact"])
async def test_an_item_is_read_as_it_was_written(memory: WorkingMemory, kind: str) -> None:
    value = {"text": "é日本\u0000\n", "numbers": [1, 1.0, 1e300, -0.5], "nothing": None}

    written = await memory.set(
        "draft", value, kind=kind, context="letter", priority=8, tags=["unsent", "long"], metadata={"by": "us"}
    )
    item = await memory.get("draft", kind=kind)

    assert item is not None
    assert (item.value, item.kind, item.context, item.priority) == (value, kind, "letter", 8)
    assert (item.tags, item.metadata, item.version) == ({"unsent", "long"}, {"by": "us"}, written.version)
    assert str(item.value["numbers"]) == str(value["numbers"])


async def test_a_write_replaces_an_item_and_keeps_its_creation_time(room: Room, memory: WorkingMemory) -> None:
    for kind in ("item", "fact"):
        await memory.set("x", 1, kind=kind, context="a", tags=["old"], priority=9)
        before = await memory.get("x", kind=kind)
        await memory.set("x", 2, kind=kind, tags=["new"])
        after = await memory.get("x", kind=kind)

        assert before is not None
        assert after is not None
        assert (after.value, after.context, after.tags, after.priority) == (2, None, {"new"}, 5)
        assert (after.created_at, after.version > before.version) == (before.created_at, True)
        assert await keys_of(memory, kind=kind, tag="old") == []
    assert not await room.half_items()


async def test_a_batch_of_volatile_items_is_one_round_trip(
    room: Room, memory: WorkingMemory, keys: redis.asyncio.Redis
) -> None:
    async def evals() -> int:
        return int((await keys.info("commandstats")).get("cmdstat_eval", {}).get("calls", 0))

    before = await evals()
    await memory.set_many([Write(key=f"k{n}", value=n) for n in range(50)])
    await memory.get_many([f"k{n}" for n in range(50)])

    assert await evals() == before + 2


async def test_a_later_change_of_the_value_is_not_written(memory: WorkingMemory) -> None:
    value = ["a"]
    write = Write(key="x", value=value)
    value.append("b")

    await memory.set_many([write])

    item = await memory.get("x")
    assert item is not None
    assert item.value == ["a"]


# --- found


async def test_items_are_found_by_kind_context_tag_and_priority(memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="one", priority=2, tags=["t"])
    await memory.set("b", 1, context="one", priority=9)
    await memory.set("c", 1, context="two", priority=5, tags=["t", "u"], kind="state")
    await memory.set("d", 1, context="two", priority=7, tags=["t"], kind="fact")

    assert await keys_of(memory) == ["b", "d", "c", "a"]
    assert await keys_of(memory, kind="state") == ["c"]
    assert await keys_of(memory, context="one") == ["b", "a"]
    assert await keys_of(memory, tag="t") == ["d", "c", "a"]
    assert await keys_of(memory, tag="t", context="two", min_priority=6) == ["d"]
    assert await keys_of(memory, min_priority=7) == ["b", "d"]
    assert await keys_of(memory, limit=1) == ["b"]
    assert await keys_of(memory, tag="nothing") == []


async def test_a_label_that_begins_like_another_is_another(memory: WorkingMemory) -> None:
    await memory.set("x", 1, tags=["a", "a b", "ab", "a:b"])
    await memory.set("y", 1, tags=["a b"])
    await memory.set("x:y z", 1, context="a")

    assert await keys_of(memory, tag="a") == ["x"]
    assert sorted(await keys_of(memory, tag="a b")) == ["x", "y"]
    assert await keys_of(memory, context="a") == ["x:y z"]


# --- compared


@pytest.mark.parametrize("kind", ["item", "fact"])
async def test_one_of_many_writers_that_expect_the_same_version_wins(memory: WorkingMemory, kind: str) -> None:
    written = await asyncio.gather(*(memory.set("x", n, kind=kind, expected_version=0) for n in range(8)))

    [winner] = [place for place, one in enumerate(written) if one]
    item = await memory.get("x", kind=kind)
    assert item is not None
    assert (item.value, item.version) == (winner, written[winner].version)


# --- invalidated


async def test_a_tag_invalidates_items_of_all_kinds(room: Room, memory: WorkingMemory) -> None:
    await memory.set("a", 1, tags=["prices"])
    await memory.set("b", 1, tags=["prices"], kind="fact")
    await memory.set("c", 1)

    assert await memory.invalidate(tag="prices") == 2
    assert await keys_of(memory) == ["c"]
    await room.forget()
    assert await keys_of(memory) == []


async def test_a_version_invalidates_older_items(memory: WorkingMemory) -> None:
    for kind in ("item", "fact"):
        await memory.set("old", 1, kind=kind)
        line = await memory.set("line", 1, kind=kind)
        await memory.set("new", 1, kind=kind)

        assert await memory.invalidate(kind=kind, before_version=line.version) == 1
        assert sorted(await keys_of(memory, kind=kind)) == ["line", "new"]


# --- gone in time


@pytest.mark.parametrize("kind", ["item", "fact"])
async def test_an_item_ends_with_its_time_to_live(room: Room, memory: WorkingMemory, kind: str) -> None:
    await memory.set("x", 1, kind=kind, ttl=2 * HOUR)

    await room.pass_time(2 * HOUR - 60)
    assert await memory.get("x", kind=kind) is not None
    await room.pass_time(61)
    assert await memory.get("x", kind=kind) is None
    assert await keys_of(memory) == []
    assert await memory.set("x", 2, kind=kind, expected_version=0)


async def test_an_expired_item_leaves_nothing_behind(room: Room, memory: WorkingMemory) -> None:
    for n in range(30):
        await memory.set(f"k{n}", n, ttl=60 * (n + 1), context=f"c{n % 3}")
        await memory.set(f"k{n}", n, ttl=3600 * (n + 1), kind="fact")

    for minutes in (5, 11, 6, 200):
        await room.pass_time(minutes * MINUTE)
        alive = [item for item in await memory.find(limit=MAX_ITEMS) if item.kind != "fact"]
        assert await room.keys.hlen(room.name("values")) == len(alive)
        assert not await room.half_items()


async def test_a_session_leaves_no_key_behind(room: Room, memory: WorkingMemory) -> None:
    await memory.set("a", 1, context="c", tags=["t"], ttl=600)
    await memory.set("b", 1, ttl=1800)
    await memory.get("a")
    times = [await room.keys.pttl(name) for name in room.names]
    assert all(1800_000 - 60_000 < left <= 3600_000 for left in times)

    await room.pass_time(2 * HOUR)

    assert await room.keys.exists(*room.names) == 0


@pytest.mark.parametrize("lost", ["heads", "values", "contexts", "state"])
async def test_an_eviction_of_one_key_leaves_no_half_memory(room: Room, memory: WorkingMemory, lost: str) -> None:
    await memory.set("cache", 1, tags=["t"], context="c")
    await memory.set("safe", 2, kind="fact", tags=["t"])

    await room.keys.delete(room.name(lost))

    found = {item.key: item.value for item in await memory.find(tag="t")}
    assert found.pop("safe") == 2
    assert found in ({}, {"cache": 1})
    assert not await room.half_items()
    assert await memory.get("safe", kind="fact") is not None


# --- bounds


async def test_the_number_of_items_of_a_session_is_limited(room: Room, memory: WorkingMemory) -> None:
    for start in range(0, MAX_ITEMS, 50):
        await memory.set_many([Write(key=f"k{n}", value=n) for n in range(start, start + 50)])

    with pytest.raises(MemoryFullError, match="one too many"):
        await memory.set("one too many", 1)
    assert await memory.set("k0", "may change")
    await memory.delete("k1")
    assert await memory.set("one too many", 1)


async def test_a_value_of_a_hundred_kilobytes_is_kept_and_a_larger_one_refused(memory: WorkingMemory) -> None:
    assert await memory.set("x", "x" * 102_000)

    with pytest.raises(ValueError, match="102400"):
        await memory.set("x", "x" * 102_400)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ({"key": ""}, "key"),
        ({"key": "a\nb"}, "key"),
        ({"key": "x" * 129}, "key"),
        ({"key": 7}, "key"),
        ({"value": {1, 2}}, "JSON"),
        ({"value": float("nan")}, "JSON"),
        ({"value": "\ud800"}, "surrogate"),
        ({"metadata": {"x": object()}}, "JSON"),
        ({"value": nest(1, 201)}, "levels deep"),
        ({"metadata": {"x": nest(1, 200)}}, "levels deep"),
        ({"priority": 0}, "1 to 10"),
        ({"priority": True}, "1 to 10"),
        ({"ttl": 0}, "ttl"),
        ({"tags": "abc"}, "tags"),
        ({"tags": ["a\x1fb"]}, "tag"),
        ({"context": ""}, "context"),
        ({"expected_version": -1}, "expected_version"),
    ],
)
def test_an_invalid_argument_is_refused_with_a_reason(call: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Write(**{"key": "x", "value": 1, **call})


async def test_a_batch_with_a_key_twice_is_refused(memory: WorkingMemory) -> None:
    with pytest.raises(ValueError, match="only once"):
        await memory.set_many([Write(key="x", value=1), Write(key="x", value=2)])


def test_a_sessions_keys_live_in_one_slot_and_under_the_prefix(room: Room) -> None:
    assert len({key_slot(name.encode()) for name in room.names}) == 1
    assert all(name.startswith(f"{room.settings.redis_prefix}memory:{{t/s}}:") for name in room.names)
