"""What a process lets pass between two counts of the open turns."""

import asyncio
from typing import Any

import pytest

from tests.support.claims import submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.sharing.open_turn_caps import OpenTurnCaps, TooManyOpenTurnsError


class Clock:
    now = 100.2

    def __call__(self) -> float:
        return self.now


async def passes(caps: OpenTurnCaps, session: str = "s", tenant: str = "t") -> bool:
    try:
        await caps.admit(tenant, session, lengthens_session=True)
    except TooManyOpenTurnsError:
        return False
    return True


async def test_submits_at_the_same_time_pass_up_to_the_cap(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    caps = OpenTurnCaps(database, per_tenant=7, per_session=5, clock=Clock())

    of_session = await asyncio.gather(*(passes(caps) for _ in range(20)))
    of_tenant = await asyncio.gather(*(passes(caps, f"s-{number}") for number in range(20)))

    assert sum(of_session) == 3
    assert sum(of_tenant) == 2
    assert await passes(caps, tenant="another")


async def test_the_next_second_counts_anew(database: Database, settings: Settings) -> None:
    clock = Clock()
    caps = OpenTurnCaps(database, per_tenant=2, per_session=None, clock=clock)
    assert [await passes(caps) for _ in range(3)] == [True, True, False]

    await submit_turns(database, settings, "the only one that was recorded")
    clock.now = 101.1

    assert [await passes(caps) for _ in range(2)] == [True, False]


async def test_while_postgres_cannot_count_everything_passes() -> None:
    class Away:
        async def fetch(self, *_: Any) -> Any:
            raise DatabaseUnavailableError("away")

    database: Any = Away()
    caps = OpenTurnCaps(database, per_tenant=1, per_session=1, clock=Clock())

    assert [await passes(caps) for _ in range(3)] == [True] * 3


async def test_a_submit_that_waits_behind_no_other_is_not_counted_for_its_session(database: Database) -> None:
    caps = OpenTurnCaps(database, per_tenant=None, per_session=1, clock=Clock())
    assert await passes(caps)

    await caps.admit("t", "s", lengthens_session=False)

    with pytest.raises(TooManyOpenTurnsError):
        await caps.admit("t", "s", lengthens_session=True)
