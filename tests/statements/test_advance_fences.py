"""A worker's fences and versions are above all that were drawn before it connected, also after a restore."""

import asyncio
import time
from itertools import pairwise

import psycopg
import pytest

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.advance_fences import ADVANCE, advance_beyond, read_last_fence

DRAW = "SELECT nextval('fence_seq') AS fence, nextval('memory_version_seq') AS version"


def as_worker(settings: Settings, **how: float) -> Database:
    """A pool as workers open it."""
    return Database(settings.database, "worker", size=1, pinned=True, first=ADVANCE, **how)


async def draw(database: Database) -> tuple[int, int]:
    [row] = await database.fetch(DRAW, {})
    return row["fence"], row["version"]


async def test_numbers_drawn_before_the_sequences_went_back_are_never_drawn_again(
    settings: Settings, database: Database
) -> None:
    """As after a restore, or with a replica that was promoted without the last commits."""
    async with as_worker(settings) as worker:
        lost = [await draw(worker) for _ in range(100)][-1]
    await database.fetch("SELECT setval('fence_seq', 7), setval('memory_version_seq', 7)", {})

    async with as_worker(settings) as worker:
        fence, version = await draw(worker)

    assert fence > lost[0]
    assert version > lost[1]


async def test_numbers_are_below_the_clock_and_exact_in_redis(settings: Settings) -> None:
    """Otherwise numbers of the lost time could be above later ones."""
    async with as_worker(settings) as worker:
        numbers = await draw(worker)

    # The two clocks are of one machine.
    assert all(number <= time.time_ns() // 1000 < 2**53 for number in numbers)


async def test_no_number_is_drawn_twice_while_connections_open(settings: Settings, database: Database) -> None:
    """Numbers only rise, whatever other connections set meanwhile."""
    drawn: list[tuple[int, int]] = []
    opening = True

    async def keep_drawing() -> None:
        while opening:
            drawn.append(await draw(database))

    drawing = asyncio.create_task(keep_drawing())
    for _ in range(5):
        await asyncio.gather(*[open_one(settings) for _ in range(6)])
    opening = False
    await drawing

    assert len(drawn) > 1
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(drawn))


async def open_one(settings: Settings) -> None:
    async with as_worker(settings) as worker:
        await worker.ping()


async def test_sequences_never_go_back_to_the_clock(settings: Settings, database: Database) -> None:
    """As after a server whose clock was fast."""
    ahead = time.time_ns() // 1000 + 10**12
    await advance_beyond(database, ahead)

    async with as_worker(settings) as worker:
        fence, version = await draw(worker)

    assert min(fence, version) > ahead
    assert await read_last_fence(database) == fence


async def test_a_number_more_than_thirty_days_ahead_of_the_clock_is_refused(database: Database) -> None:
    """Whoever may advance the sequences could use them up, and only their owner can set them back."""
    before = await draw(database)

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="more than 30 days ahead of the clock: set"):
        await advance_beyond(database, time.time_ns() // 1000 + 31 * 86_400 * 10**6)

    assert await draw(database) == (before[0] + 1, before[1] + 1)


async def test_with_tables_of_an_older_version_nothing_is_drawn_and_the_log_says_what_to_do(
    settings: Settings, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await database.fetch("DROP FUNCTION advance_sequences", {})

    async with as_worker(settings, wait_seconds=0.5) as worker:
        with pytest.raises(DatabaseUnavailableError):
            await draw(worker)

    assert "run `turnstile migrate`" in caplog.text
