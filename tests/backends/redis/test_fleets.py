"""Redis behind sentinels and as a cluster, with TLS: every use of Redis works there as with one server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.fleets import Fleet, cluster, tls_sentinel
from tests.support.fleet.redis_uses import SESSIONS, Hands, opened, settings_for
from tests.support.fleet.servers import program_of
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.redis.ping import ping
from turnstile.memory.history_entry import Entry
from turnstile.memory.interface import MemoryChange
from turnstile.memory.item import Place, Write
from turnstile.memory.kinds import Pressure, find_kind
from turnstile.streaming.cancel_hints import listen
from turnstile.streaming.event import EventKind, Saying, name_stream, numbered
from turnstile.streaming.stream import Append, Appended, Reading
from turnstile.streaming.stream_inspection import highest_fence
from turnstile.turn.conversation import HistoryVersion, StoredMessage
from turnstile.worker.session_lock import Extension, Guard, Release


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


async def test_the_heartbeat_extends_locks_and_takes_missing_ones_again(hands: Hands, fleet: Fleet) -> None:
    locks = hands.locks("ours")
    await asyncio.gather(*map(hands.lock.acquire, locks[::2]))

    extended = await hands.extender.extend(locks)

    assert extended == [Extension.EXTENDED, Extension.RETAKEN] * (len(SESSIONS) // 2)


async def test_events_on_all_nodes_are_announced_and_read(hands: Hands) -> None:
    keys = [name_stream(hands.settings.redis_prefix, "t", session, uuid4()) for session in SESSIONS]
    said = numbered(1, 1, [Saying(EventKind.DELTA, '"word"'), Saying(EventKind.END, "{}")])

    with hands.hints.listen(keys[0]) as first, hands.hints.listen(keys[-1]) as last:
        # Told once when the subscription stands; what comes after that is of the appends.
        assert await first.wait(20)
        assert await last.wait(20)
        appended = await asyncio.gather(*(hands.writer.append(Append(key, said)) for key in keys))
        await until(first.take_end)
        await until(last.take_end)

    assert appended == [Appended.APPENDED] * len(SESSIONS)
    read = await asyncio.gather(*(hands.reader.read(Reading(key, None)) for key in keys))
    assert read == [said] * len(SESSIONS)


async def test_histories_on_all_nodes_are_stored_and_loaded(hands: Hands) -> None:
    version = HistoryVersion(1, uuid4())
    message = StoredMessage(
        turn_id=uuid4(),
        seq=1,
        ordinal=0,
        role="user",
        text='"Good morning"',
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )
    entry = Entry((message,), whole=True)

    await asyncio.gather(*(hands.history.store("t", session, version, entry) for session in SESSIONS))

    loaded = await asyncio.gather(*(hands.history.load("t", session, version, 10) for session in SESSIONS))
    assert loaded == [entry] * len(SESSIONS)


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
    assert [[item.value for item in one.items] if one else None for one in found] == [["Ada"]] * len(memories)


async def _first(changes: AsyncIterator[MemoryChange]) -> MemoryChange:
    return await anext(changes)


async def test_a_cancel_signal_is_received(hands: Hands) -> None:
    turn, heard = uuid4(), set[UUID]()
    listening = asyncio.create_task(listen(hands.settings, hands.redis.lock, heard.add))

    async def told() -> bool:
        await hands.cancels.publish([turn])
        return turn in heard

    await until(told)
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening


async def test_the_operators_checks_reach_all_nodes(hands: Hands) -> None:
    await ping(hands.settings.redis_url)
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
