"""The tenant cap of a worker (G20): a session beyond the share is deferred in the table, and woken when there is room."""

import asyncio
from functools import partial
from typing import cast
from uuid import UUID

import pytest

from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processors import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.row_locks import rows_locked
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.database_retry import retry_while_down
from turnstile.worker.slots.tenant_admission import TenantCap
from turnstile.worker.slots.tenant_fairness import LEAST_DEFER_SECONDS, TenantSlots

RESEND_SECONDS = 600.0


async def owed_in(database: Database, turn_id: UUID) -> float:
    """Seconds until a wake-up is due."""
    [row] = await database.fetch(
        "SELECT extract(epoch FROM send_at - now())::float8 AS seconds FROM turns WHERE id = %(id)s", {"id": turn_id}
    )
    return float(row["seconds"])


class Door:
    """A worker with such slots."""

    def __init__(self, settings: Settings, database: Database, slots: TenantSlots) -> None:
        self.settings = settings
        self.database = database
        self.nudges = 0
        given_up = asyncio.Event()
        given_up.set()
        outlasting = partial(retry_while_down, given_up=given_up)
        self.cap = TenantCap(
            slots,
            settings.queue,
            database,
            self._nudge,
            outlasting,
            is_full=lambda: False,
            turn_away=lambda: None,
        )

    def _nudge(self) -> None:
        self.nudges += 1

    async def comes(self, session: str, tenant: str = "t") -> UUID:
        """A turn of a session that has only this one."""
        wanted = make_submission(self.settings.queue, session, tenant_id=tenant)
        await submit(self.database, [wanted], resend_seconds=RESEND_SECONDS)
        return wanted.turn_id

    async def enters(self, session: str, tenant: str = "t") -> bool:
        """Whether the session is let in."""
        return await self.cap.enter(WakeUp(tenant, session, UUID(int=1)))

    async def owed_in(self, turn_id: UUID) -> float:
        """Seconds until a wake-up is due."""
        return await owed_in(self.database, turn_id)


class Slow:
    """A database that responds when the test decides."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def fetch(self, *_: object) -> list[object]:
        self.asked.set()
        await self.answers.wait()
        return []


@pytest.fixture
def door(settings: Settings, database: Database) -> Door:
    """Each tenant has one slot."""
    return Door(settings, database, TenantSlots(1, 64))


async def test_a_session_beyond_the_share_is_deferred_and_woken_when_a_slot_is_free(door: Door) -> None:
    await door.enters("first")
    turn = await door.comes("second")
    assert not await door.enters("second")
    assert 0 < await door.owed_in(turn) < 2 * LEAST_DEFER_SECONDS

    door.cap.leave("t", None)

    await until(lambda: door.nudges)
    assert await door.owed_in(turn) <= 0


async def test_the_next_session_is_woken_if_the_first_is_locked_or_answered_elsewhere(door: Door) -> None:
    await door.enters("first")
    await door.comes("second")
    turn = await door.comes("third")
    for session in ("answered elsewhere", "second", "third"):
        await door.enters(session)

    with rows_locked(door.settings, "session_id = 'second'"):
        door.cap.leave("t", None)

        await until(lambda: door.nudges)
    assert await door.owed_in(turn) <= 0


async def test_a_handler_that_was_left_behind_keeps_the_slot_until_it_ends(door: Door) -> None:
    await door.enters("first")
    left_behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    door.cap.leave("t", left_behind)
    assert not await door.enters("second")

    left_behind.set_result(None)
    await until(partial(door.enters, "second"))


async def test_a_slot_that_becomes_free_during_the_deferral_is_taken(settings: Settings) -> None:
    database = Slow()
    door = Door(settings, cast("Database", database), TenantSlots(1, 64))
    await door.enters("first")
    coming = asyncio.create_task(door.enters("second"))
    await database.asked.wait()

    door.cap.leave("t", None)

    database.answers.set()
    assert await coming


async def test_a_session_that_runs_here_is_not_deferred(settings: Settings, database: Database) -> None:
    capped, lock = settings.model_copy(update={"tenant_slots": 1}), OwnSessionLock(settings)
    wanted = [make_submission(settings.queue, session) for session in ("a", "c")]
    await submit(database, wanted, resend_seconds=RESEND_SECONDS)
    again, waits = make_submission(settings.queue, "a"), wanted[1]
    began, going_on = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> None:
        began.set()
        await going_on.wait()

    nudges: list[None] = []
    with processing(capped, database, lock, "w", Handler(answer), nudge_relay=lambda: nudges.append(None)) as processor:
        holding = asyncio.create_task(processor.process(message_about(wanted[0].turn_id, "a")))
        await began.wait()
        await submit(database, [again], resend_seconds=RESEND_SECONDS)
        for turn, session in ((again, "a"), (waits, "c")):
            await processor.process(message_about(turn.turn_id, session))
        assert await owed_in(database, again.turn_id) > 2 * LEAST_DEFER_SECONDS
        going_on.set()
        await holding

        await until(lambda: nudges)
    await lock.close()
    assert await owed_in(database, waits.turn_id) <= 0


# --- fair shares


@pytest.fixture
def fair(settings: Settings, database: Database) -> Door:
    """Four slots in fair shares."""
    return Door(settings, database, TenantSlots("fair", 4))


async def test_a_tenant_behind_a_flood_is_found_before_its_message_is_received(fair: Door) -> None:
    for n in range(3):
        await fair.enters(f"s{n}")
    behind = await fair.comes("behind")
    await fair.comes("s", "two")

    assert not await fair.enters("behind")

    assert 0 < await fair.owed_in(behind) < 2 * LEAST_DEFER_SECONDS
    assert await fair.enters("s", "two")


async def test_the_table_is_read_once_a_second_at_most(fair: Door) -> None:
    for n in range(4):
        await fair.enters(f"s{n}")
    await fair.comes("s", "two")

    assert await fair.enters("s4")


async def test_while_the_database_is_away_a_flood_is_not_deferred_for_unknown_tenants(settings: Settings) -> None:
    async with Database(
        DatabasePlace("postgresql://127.0.0.1:1/nowhere"), "test", size=1, wait_seconds=0.1
    ) as database:
        fair = Door(settings, database, TenantSlots("fair", 4))

        assert {await fair.enters(f"s{n}") for n in range(5)} == {True}
