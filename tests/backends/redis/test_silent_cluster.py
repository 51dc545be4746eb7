"""A Redis Cluster that drops packets costs a heartbeat only a few timeouts, however many nodes it has.

The rows' leases are renewed behind it: a beat that asked one silent node after the other would come too late for them.
"""

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.fleet.falling_silent import FallingSilent, falling_silent
from tests.support.fleet.redis_uses import settings_for
from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Extension, LockedSession, SessionLock, name_lock

NODES = 15
ENOUGH = 10
"""Time-outs. Asked in turn, 15 silent primaries take 15 of them, and who has which slot another 30."""


class ImpatientSettings(Settings):
    """With a short timeout, the unit of these tests."""

    @property
    def redis_timeout_seconds(self) -> float:
        """Long enough for a stand-in in this process, on a machine that is short of cores."""
        return 1.0


@pytest.fixture
def cluster() -> Iterator[FallingSilent]:
    with falling_silent(NODES) as made:
        yield made


@pytest.fixture
def settings(cluster: FallingSilent) -> Settings:
    return settings_for(cluster.url, ImpatientSettings)


@pytest.fixture
async def extender(settings: Settings) -> AsyncIterator[SessionLock]:
    made = OwnSessionLock(settings)
    yield made
    await made.close()


@pytest.fixture
def locks(settings: Settings) -> list[LockedSession]:
    """So many that every node has some."""
    return [name_lock(settings, "t", f"s-{number}", "ours") for number in range(20 * NODES)]


async def extend_all(extender: SessionLock, locks: list[LockedSession]) -> None:
    """Until a beat has reached every node."""

    async def extended() -> bool:
        return set(await extender.extend(locks)) == {Extension.EXTENDED}

    await until(extended)


async def timeouts_of(settings: Settings, extender: SessionLock, locks: list[LockedSession]) -> float:
    """How long one extension takes."""
    begun = time.monotonic()
    await extender.extend(locks)
    return (time.monotonic() - begun) / settings.redis_timeout_seconds


async def test_a_cluster_that_falls_silent_costs_a_few_timeouts(
    cluster: FallingSilent, settings: Settings, extender: SessionLock, locks: list[LockedSession]
) -> None:
    await extend_all(extender, locks)
    cluster.silent.update(cluster.ports)

    assert await timeouts_of(settings, extender, locks) < ENOUGH


async def test_a_cluster_that_never_responds_costs_a_few_timeouts(
    cluster: FallingSilent, settings: Settings, extender: SessionLock, locks: list[LockedSession]
) -> None:
    cluster.silent.update(cluster.ports)

    assert await timeouts_of(settings, extender, locks) < ENOUGH


async def test_locks_are_extended_again_when_the_cluster_is_back(
    cluster: FallingSilent, extender: SessionLock, locks: list[LockedSession]
) -> None:
    await extend_all(extender, locks)
    cluster.silent.update(cluster.ports)
    assert Extension.EXTENDED not in await extender.extend(locks)

    cluster.silent.clear()

    await extend_all(extender, locks)
