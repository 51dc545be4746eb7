"""Redis behind sentinels and as a cluster, with TLS: every use of Redis works there as with one server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.fleets import Fleet, cluster, tls_sentinel
from tests.support.fleet.redis_uses import SESSIONS, Hands, opened, settings_for
from tests.support.fleet.servers import program_of
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.redis.operator_client import operator_client
from turnstile.backends.redis.window_counts import WindowCounts
from turnstile.backends.window_count import Window
from turnstile.memory.interface import MemoryChange
from turnstile.memory.item import Place, Write
from turnstile.memory.kinds import Pressure, find_kind
from turnstile.ops.doctor.stream_inspection import highest_fence
from turnstile.streaming.event import EventKind, Saying, name_stream, numbered
from turnstile.streaming.stream import Append, Appended, Reading
from turnstile.worker.session_lock import Guard, Release


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["sentinels", "cluster"])
def fleet(request: pytest.FixtureRequest, stack: Stack, certificates: Certificates) -> Iterator[Fleet]:
    program = program_of(stack)
    made = (
        tls_sentinel(program, certificates)
        if request.param == "sentinels"
        else cluster(program, certificates=certificates)
    )
    with made as running:
        yield running


@pytest.fixture
async def hands(fleet: Fleet) -> AsyncIterator[Hands]:
    async with opened(settings_for(fleet.url)) as made:
        yield made


async def test_sessions_on_all_nodes_are_locked_and_released(hands: Hands, fleet: Fleet) -> None:
    ours, theirs = hands.locks("ours"), hands.locks("theirs")

    assert await asyncio.gather(*map(hands.lock.acquire, ours)) == [Guard.LOCKED] * len(SESSIONS)
    assert all(primary.client.keys(f"{hands.settings.redis_prefix}*") for primary in fleet.primaries)
    assert await asyncio.gather(*map(hands.lock.acquire, theirs)) == [Guard.BUSY] * len(SESSIONS)
    assert await asyncio.gather(*map(hands.lock.release, ours)) == [Release.LOOK_AGAIN] * len(SESSIONS)
    assert await asyncio.gather(*map(hands.lock.release, ours)) == [Release.RELEASED] * len(SESSIONS)


async def test_events_on_all_nodes_are_announced_and_read(hands: Hands) -> None:
    keys = [name_stream(hands.settings.redis_prefix, "t", session, uuid4()) for session in SESSIONS]
    said = numbered(1, 1, [Saying(EventKind.DELTA, '"word"'), Saying(EventKind.END, "{}")])

    with hands.hints.listen(keys[0]) as first, hands.hints.listen(keys[-1]) as last:
        # The first wake-up means that the subscription has started; later ones come from the appends.
        assert await first.wait(20)
        assert await last.wait(20)
        appended = await asyncio.gather(*(hands.writer.append(Append(key, said)) for key in keys))
        await until(first.take_end)
        await until(last.take_end)

    assert appended == [Appended.APPENDED] * len(SESSIONS)
    read = await asyncio.gather(*(hands.reader.read(Reading(key, None)) for key in keys))
    assert read == [said] * len(SESSIONS)


async def test_the_memory_of_a_session_is_written_and_read_and_its_changes_published(hands: Hands) -> None:
    memories = [hands.items.session("t", session, fence=1) for session in SESSIONS[:8]]

    async with hands.items.changes(memories[0]) as changes:
        written = await asyncio.gather(*(hands.items.write(one, [Write(key="name", value="Ada")]) for one in memories))
        hearing = asyncio.create_task(_first(changes))

        async def heard() -> bool:
            # Another node may carry out the first before the subscription stands.
            await hands.items.write(memories[0], [Write(key="name", value="Ada")])
            return hearing.done()

        await until(heard, within=60)

    assert all(versions is not None for versions in written)
    change = hearing.result()
    assert (change.of, change.kind, change.name) == ("item", "item", "name")
    found = await asyncio.gather(*(hands.items.read(one, [Place(find_kind("item"), "name")]) for one in memories))
    assert [[item.value for item in one] for one in found] == [["Ada"]] * len(memories)


async def _first(changes: AsyncIterator[MemoryChange]) -> MemoryChange:
    return await anext(changes)


async def test_the_operators_checks_reach_all_nodes(hands: Hands) -> None:
    async with operator_client(hands.settings.redis_url) as client:
        assert await client.ping()
    for fence, session in enumerate(SESSIONS, 1):
        said = numbered(fence, 1, [Saying(EventKind.END, "{}")])
        await hands.writer.append(Append(name_stream(hands.settings.redis_prefix, "t", session, uuid4()), said))

    assert await highest_fence(hands.settings, 1000) == len(SESSIONS)


async def test_the_memory_watch_reads_the_fullest_node(hands: Hands, fleet: Fleet) -> None:
    full = fleet.primaries[-1].client
    used = full.info("memory")["used_memory"]
    full.config_set("maxmemory", int(used / 0.85))

    await hands.watch.look()

    full.config_set("maxmemory", 0)
    assert hands.watch.pressure is Pressure.HIGH


async def test_requests_are_counted_on_the_node_of_their_caller(hands: Hands) -> None:
    """`limits` brings clients of its own: they need the certificates and the nodes, too."""
    settings = hands.settings
    counts = WindowCounts(settings.memory_redis, settings.redis_timeout_seconds, f"{settings.redis_prefix}rates")
    sliding, fixed = (Window("one", limit=1, seconds=600, sliding=sliding) for sliding in (True, False))
    try:
        for window, sessions in ((sliding, SESSIONS[:15]), (fixed, SESSIONS[15:])):
            first = [await counts.spend(window, ("t", session)) for session in sessions]
            second = [await counts.spend(window, ("t", session)) for session in sessions]

            assert [count and count.allowed for count in first] == [True] * 15
            assert [count and count.allowed for count in second] == [False] * 15
    finally:
        await counts.close()
