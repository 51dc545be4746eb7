"""The heartbeat keeps the places of running turns, and takes them again after a flush; given back ones it leaves alone."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import redis.asyncio

from tests.support.factories import CLAIMED
from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import FleetLimits, GiveBack, Places, Take, WaitingSession
from turnstile.limits.rules import Amounts, Want
from turnstile.process.redis_clients import connect_lock
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.limiting.kept_places import keep_places, placed_turns

ONE = Want(limit="l", value="v", weight=1, amounts=Amounts(concurrency=1, rate=None, burst=None))
LEASE_SECONDS = 30.0


class Room:
    """One place of a limit, and a turn that has it."""

    def __init__(self, fleet: FleetLimits, keys: redis.asyncio.Redis) -> None:
        self.fleet = fleet
        self.keys = keys
        self.places = Places(uuid4().hex, (ONE,))
        self.entry = HeartbeatEntry(None, None, CLAIMED, places=self.places)

    async def members(self) -> dict[str, float]:
        return dict(await self.keys.zrange(f"{self.fleet.key(ONE)}:places", 0, -1, withscores=True))


@pytest.fixture
async def room(settings: Settings, keys: redis.asyncio.Redis) -> AsyncIterator[Room]:
    client = connect_lock(settings)
    made = Room(FleetLimits(client, settings.redis_prefix, LEASE_SECONDS), keys)
    await made.fleet.run([Take(made.places, WaitingSession("t", "s"))])
    yield made
    await client.close()


async def test_a_place_lasts_longer_with_each_beat(room: Room) -> None:
    before = await room.members()
    [name] = before

    await room.keys.zadd(f"{room.fleet.key(ONE)}:places", {name: before[name] - 20_000})
    await keep_places(room.fleet, [room.entry])

    assert (await room.members())[name] >= before[name]


async def test_a_place_is_taken_again_after_a_flush(room: Room) -> None:
    before = list(await room.members())
    await room.keys.delete(f"{room.fleet.key(ONE)}:places", room.fleet.key(ONE))

    await keep_places(room.fleet, [room.entry])

    assert list(await room.members()) == before


async def test_a_place_that_was_given_back_during_the_beat_stays_free(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FleetLimits.run

    async def give_back_first(fleet: FleetLimits, steps: object) -> object:
        monkeypatch.setattr(FleetLimits, "run", run)
        room.entry.places = None
        await run(fleet, [GiveBack(room.places)])
        return await run(fleet, steps)  # type: ignore[arg-type]

    monkeypatch.setattr(FleetLimits, "run", give_back_first)
    await keep_places(room.fleet, [room.entry])

    assert await room.members() == {}


async def test_a_worker_without_postgres_keeps_the_places_of_its_handlers(room: Room) -> None:
    room.entry.ours_at = 0.0

    assert placed_turns([room.entry, HeartbeatEntry(None, None, CLAIMED)]) == [room.entry]
