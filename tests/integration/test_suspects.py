"""Turns that have crashed a worker before: one at a time in a process, and none is charged for another one's crash."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.factories import make_submission
from tests.integration.processing import message_about, processing
from tests.probes import until
from turns.database import Database
from turns.settings import Settings
from turns.submission import submit
from worker.handler import Handler, Turn
from worker.processor import Processor
from worker.session_lock import SessionLock


class Ward:
    """A worker whose handlers run until they are let go."""

    processor: Processor

    def __init__(self, settings: Settings, database: Database) -> None:
        self.began: list[str] = []
        self.let_go = asyncio.Event()
        self._settings = settings
        self._database = database
        self._going_on: list[asyncio.Task[Any]] = []

    async def handle(self, turn: Turn, _: Any) -> str:
        self.began.append(turn.session_id)
        await self.let_go.wait()
        return "done"

    async def bring(self, session_id: str, *, crashes: int, tenant_id: str = "t") -> UUID:
        """A turn with so many crashes on its record comes to this worker; its id."""
        wanted = make_submission(self._settings.queue, session_id, "hello")
        await submit(self._database, [wanted], net_seconds=600.0)
        await self._database.fetch(
            "UPDATE turns SET crashes = %(crashes)s WHERE id = %(id)s", {"crashes": crashes, "id": wanted.turn_id}
        )
        self.come_for(session_id, wanted.turn_id)
        return wanted.turn_id

    def come_for(self, session_id: str, turn_id: UUID) -> None:
        message = message_about(turn_id, session_id)
        self._going_on.append(asyncio.create_task(self.processor.process(message)))

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        [row] = await self._database.fetch(
            "SELECT status, attempt, failures, crashes, extract(epoch FROM send_at - now())::float8 AS put_off_seconds"
            " FROM turns WHERE id = %(id)s",
            {"id": turn_id},
        )
        return dict(row)

    async def is_handed_back(self, turn_id: UUID) -> bool:
        outcomes = await self._database.fetch(
            "SELECT 1 FROM turn_attempts WHERE turn_id = %(id)s AND outcome = 'released'", {"id": turn_id}
        )
        return bool(outcomes)

    async def make_due(self, turn_id: UUID) -> None:
        """As time would."""
        await self._database.fetch(
            "UPDATE turns SET execute_at = now(), send_at = now() WHERE id = %(id)s", {"id": turn_id}
        )

    async def through(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self._going_on), 30)


@pytest.fixture
async def ward(settings: Settings, database: Database) -> AsyncIterator[Ward]:
    lock = SessionLock(settings)
    ward = Ward(settings, database)
    with processing(settings, database, lock, "w", Handler(ward.handle)) as ward.processor:
        yield ward
        ward.let_go.set()
        await ward.through()
    await lock.close()


async def test_the_second_one_is_handed_back_for_a_while_and_not_charged(ward: Ward) -> None:
    """RUNNING, it would be charged for the crash of the first."""
    await ward.bring("a", crashes=1)
    await until(lambda: ward.began == ["a"])

    second = await ward.bring("b", crashes=1)

    await until(lambda: ward.is_handed_back(second))
    row = await ward.row(second)
    assert 3.0 < row.pop("put_off_seconds") <= 15.0
    assert row == {"status": "PENDING", "attempt": 0, "failures": 0, "crashes": 1}
    assert ward.began == ["a"]


async def test_in_a_worker_that_is_to_stop_it_is_handed_back_at_once(ward: Ward) -> None:
    await ward.bring("a", crashes=1)
    await until(lambda: ward.began == ["a"])
    ward.processor.hand_back()

    second = await ward.bring("b", crashes=1)

    await until(lambda: ward.is_handed_back(second))
    assert (await ward.row(second))["put_off_seconds"] <= 0.0


async def test_it_runs_when_it_comes_again_and_no_other_does(ward: Ward) -> None:
    await ward.bring("a", crashes=1)
    await until(lambda: ward.began == ["a"])
    second = await ward.bring("b", crashes=2)
    await until(lambda: ward.is_handed_back(second))
    ward.let_go.set()
    await ward.through()

    await ward.make_due(second)
    ward.come_for("b", second)

    await ward.through()
    assert ward.began == ["a", "b"]
    row = await ward.row(second)
    assert (row["status"], row["attempt"], row["crashes"]) == ("SUCCEEDED", 1, 2)


async def test_turns_without_a_crash_run_beside_it(ward: Ward) -> None:
    await ward.bring("a", crashes=1)
    await ward.bring("b", crashes=0)
    await ward.bring("c", crashes=0)

    await until(lambda: set(ward.began) == {"a", "b", "c"})
