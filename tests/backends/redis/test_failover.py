"""A part of Redis dies: the rest goes on, and a promoted replica is found."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.conversations import Conversation, Reader
from tests.support.fleet.fleets import cluster, sentinel_trio
from tests.support.fleet.redis_uses import SESSIONS, HastySettings, opened, settings_for
from tests.support.fleet.servers import Server, choose_ports, program_of
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.memory.item import Write
from turnstile.worker.session_lock import Extension, Guard


async def test_a_lost_node_affects_only_sessions_with_keys_on_it(stack: Stack) -> None:
    with cluster(program_of(stack)) as fleet:
        async with opened(settings_for(fleet.url, HastySettings)) as hands:
            locks = hands.locks("ours")
            await asyncio.gather(*map(hands.lock.acquire, locks))
            await hands.extender.extend(locks)
            memories = [hands.items.session("t", session, fence=1) for session in SESSIONS]
            await hands.items.write(memories[0], [Write(key="name", value="Ada")])
            prefix = f"{hands.settings.redis_prefix}lock:*"
            lost = set(fleet.primaries[0].client.keys(prefix))
            fleet.primaries[0].kill()

            guards = await asyncio.gather(*map(hands.lock.acquire, locks))
            extended = await hands.extender.extend(locks)
            written = await asyncio.gather(
                *(hands.items.write(one, [Write(key="name", value="Ada")]) for one in memories)
            )

            assert 0 < len(lost) < len(SESSIONS)
            assert guards == [Guard.UNANSWERED if lock.key in lost else Guard.LOCKED for lock in locks]
            assert extended == [Extension.UNKNOWN if lock.key in lost else Extension.EXTENDED for lock in locks]
            assert [versions is None for versions in written] == [lock.key in lost for lock in locks]
            assert await hands.redis.lock.ping() is True


async def test_a_process_that_starts_while_a_node_is_down_uses_the_others(stack: Stack) -> None:
    with cluster(program_of(stack)) as fleet:
        fleet.primaries[0].kill()
        async with opened(settings_for(fleet.url, HastySettings)) as hands:

            async def most_are_locked() -> bool:
                guards = await asyncio.gather(*map(hands.lock.acquire, hands.locks("ours")))
                return Guard.LOCKED in guards

            await until(most_are_locked, within=60)
            extended = await hands.extender.extend(hands.locks("ours"))
            assert {Extension.EXTENDED, Extension.UNKNOWN} <= set(extended)


@pytest.fixture
async def demoted(stack: Stack) -> AsyncIterator[Server]:
    [port] = choose_ports(1)
    server = Server(program_of(stack), port, {})
    server.wait()
    yield server
    server.close()


async def test_the_connections_to_a_demoted_primary_are_closed(demoted: Server) -> None:
    async with opened(settings_for(f"redis://{LOOPBACK}:{demoted.port}", HastySettings)) as hands:
        locks = hands.locks("ours")
        await hands.lock.acquire(locks[0])
        await hands.extender.extend(locks[:1])
        before = _clients(demoted)
        demoted.client.replicaof(LOOPBACK, 1)

        assert await hands.lock.acquire(locks[1]) is Guard.UNANSWERED
        assert await hands.extender.extend(locks[:2]) == [Extension.UNKNOWN] * 2

        async def all_left() -> bool:
            return not before & _clients(demoted)

        await until(all_left)
        demoted.client.replicaof("NO", "ONE")
        assert await hands.lock.acquire(locks[1]) is Guard.LOCKED


def _clients(server: Server) -> set[str]:
    own = str(server.client.client_id())
    return {one["id"] for one in server.client.client_list() if one["id"] != own}


async def test_with_sentinels_a_failover_costs_a_history_one_query(
    settings: Settings, database: Database, stack: Stack
) -> None:
    with sentinel_trio(program_of(stack)) as fleet:
        behind = settings.model_copy(update={"redis_url": fleet.url})
        reader, talk = Reader(behind, database), Conversation(behind, database)
        await talk.exchange(reader.history, "one", "first")
        said = await talk.read(reader.history)
        fleet.primaries[0].kill()

        assert await talk.read(reader.history) == said
        await until(fleet.has_failed_over, within=60)

        async def read_without_a_query() -> bool:
            assert await talk.read(reader.history) == said
            return not reader.asked

        await until(read_without_a_query, within=60)
        await talk.exchange(reader.history, "two", "second")
        assert [one.content for one in await talk.read(reader.history)] == ["one", "first", "two", "second"]
        await reader.close()
