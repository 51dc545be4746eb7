"""A prefetched turn: it is claimed, and its handler begins when another one has ended, or it is handed back."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any
from uuid import UUID

import pytest

from tests.support.factories import make_submission
from tests.support.probes import stand_still, until
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker import handler_run
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.processor import Processor
from turnstile.worker.queue_pause import QueuePause
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import QUICK_SECONDS, Slots

FOR_EVER = 600.0
STUBBORN = "stubborn"


class Room:
    """A worker with one slot. Its handlers run until `may_end`; that of session STUBBORN ignores its cancellation."""

    processor: Processor

    def __init__(self, settings: Settings, database: Database, slots: Slots) -> None:
        self.slots = slots
        self.began: list[str] = []
        self.deadlines: list[datetime] = []
        self.kept: list[HeartbeatEntry] = []
        self.may_end = asyncio.Event()
        self.stopping = asyncio.Event()
        self.pause = QueuePause()
        self._settings = settings
        self._database = database
        self._going_on: list[asyncio.Task[Any]] = []

    async def handle(self, turn: Turn, ctx: Any) -> str:
        self.began.append(turn.session_id)
        self.deadlines.append(ctx.deadline)
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                if turn.session_id != STUBBORN:
                    raise
        return "done"

    async def begin(self, session_id: str, *contents: str, **fields: Any) -> UUID:
        """Submits to a session, and has its first turn worked on; its id."""
        wanted = [make_submission(self._settings.queue, session_id, one, **fields) for one in contents or ("hello",)]
        await submit(self._database, wanted, resend_seconds=FOR_EVER)
        message = message_about(wanted[0].turn_id, session_id)
        self._going_on.append(asyncio.create_task(self.processor.process(message)))
        return wanted[0].turn_id

    async def running(self, session_id: str) -> UUID:
        """The same, of a session whose turn finds a slot; returns when its handler runs."""
        turn_id = await self.begin(session_id)
        await until(lambda: self.began == [session_id])
        return turn_id

    def cancel_last(self) -> None:
        """As the heartbeat does with the turn that was claimed last."""
        stop = self.kept[-1].stop
        assert stop is not None
        stop(StopReason.CANCELED, CancelReason.USER)

    async def in_line(self, session_id: str, *contents: str, **fields: Any) -> UUID:
        """The same, of a session whose turn finds no slot; returns when it is claimed and waits."""
        turn_id = await self.begin(session_id, *contents, **fields)
        await until(lambda: self.slots._line)
        assert (await self.row(turn_id))["status"] == "RUNNING"
        return turn_id

    async def ended(self, turn_id: UUID) -> str | None:
        """Its status, once it has ended."""
        status = str((await self.row(turn_id))["status"])
        return status if status not in ("PENDING", "RUNNING") else None

    async def handed_back(self, turn_id: UUID) -> bool:
        row = await self.row(turn_id)
        return row["status"] == "PENDING" and bool(row["outcomes"])

    async def abandon_last(self) -> None:
        """Cancels what was begun last."""
        last = self._going_on.pop()
        last.cancel()
        await asyncio.wait({last})

    async def row(self, turn_id: UUID) -> dict[str, Any]:
        found = await self._database.fetch(
            "SELECT t.status, t.failures, t.send_at <= now() AS due, array(SELECT outcome FROM turn_attempts a"
            " WHERE a.turn_id = t.id ORDER BY fence)::text[] AS outcomes FROM turns t WHERE id = %(id)s",
            {"id": turn_id},
        )
        return dict(found[0])

    async def through(self) -> None:
        """Returns when all work has ended."""
        await asyncio.wait_for(asyncio.gather(*self._going_on), 30)


@pytest.fixture
async def room(
    settings: Settings, database: Database, lock: SessionLock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Room]:
    monkeypatch.setattr(handler_run, "MOST_WAIT_SECONDS", FOR_EVER)
    settings = settings.model_copy(update={"cancel_grace_seconds": 0.05})
    slots = Slots(1)
    room = Room(settings, database, slots)
    with processing(
        settings,
        database,
        lock,
        "w",
        Handler(room.handle),
        slots=slots,
        taken=room.kept,
        stopping=room.stopping,
        pause=room.pause,
    ) as room.processor:
        yield room
        room.may_end.set()
        await room.through()
    assert slots.take(), "a slot was lost"


async def test_a_prefetched_turn_begins_when_a_slot_is_free(room: Room) -> None:
    await room.running("a")
    waiting = await room.in_line("b")
    assert room.began == ["a"]

    room.may_end.set()
    await room.through()

    assert room.began == ["a", "b"]
    assert (await room.row(waiting))["outcomes"] == ["succeeded"]


async def test_a_prefetched_turn_of_a_paused_queue_is_handed_back_when_a_slot_is_free(room: Room) -> None:
    await room.running("a")
    waiting = await room.in_line("b")

    room.pause.set(True)
    room.may_end.set()
    await room.through()

    assert room.began == ["a"]
    assert (await room.row(waiting))["outcomes"] == ["released"]


async def test_a_turn_that_waits_too_long_is_handed_back_free_of_charge(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_run, "MOST_WAIT_SECONDS", 0.5)
    await room.running("a")

    waiting = await room.in_line("b", "one", "two")
    # Another wake-up gives the run a reason to look at the session once more.
    await room.processor.process(message_about(waiting, "b"))
    await until(lambda: room.handed_back(waiting))
    room.may_end.set()
    await room.through()
    row = await room.row(waiting)
    assert (row["failures"], row["due"], row["outcomes"]) == (0, True, ["released"])
    assert room.began == ["a"]


async def test_a_turn_that_is_cancelled_while_it_waits_never_begins(room: Room) -> None:
    await room.running("a")
    waiting = await room.in_line("b")

    room.cancel_last()

    assert await until(lambda: room.ended(waiting)) == "CANCELED"
    room.may_end.set()
    await room.through()
    assert room.began == ["a"]


async def test_a_waiting_turn_is_handed_back_at_a_shutdown(room: Room) -> None:
    running = await room.running("a")
    waiting = await room.in_line("b")

    room.processor.runner.hand_back()
    await room.through()

    assert [(await room.row(one))["outcomes"] for one in (running, waiting)] == [["released"], ["released"]]
    assert room.began == ["a"]


async def test_a_waiting_turn_does_not_begin_in_a_stopping_worker(room: Room) -> None:
    await room.running("a")
    waiting = [await room.in_line("b"), await room.begin("c")]
    await until(lambda: len(room.slots._line) == 2)

    room.stopping.set()
    room.may_end.set()
    await room.through()

    assert room.began == ["a"]
    assert [(await room.row(one))["outcomes"] for one in waiting] == [["released"], ["released"]]


async def test_after_a_blocked_loop_a_turn_that_has_a_slot_begins(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_run, "MOST_WAIT_SECONDS", 1.0)
    await room.running("a")
    waiting = await room.in_line("b")
    loop = asyncio.get_running_loop()
    loop.call_later(0.75, room.may_end.set)

    # Both the handler's end and the end of the wait are due when it goes on.
    stand_still(1.1)
    await room.through()

    assert (await room.row(waiting))["outcomes"] == ["succeeded"]


async def test_only_the_first_turn_of_a_run_counts_for_the_pace(room: Room) -> None:
    room.may_end.set()
    quick: list[float] = []
    give_back = room.slots.give_back
    room.slots.give_back = lambda ran_seconds=inf: (quick.append(ran_seconds), give_back(ran_seconds))[1]  # type: ignore[method-assign]

    await room.begin("a", "one", "two", "three")
    await room.through()

    assert [one < QUICK_SECONDS for one in quick] == [True, False, False]


async def test_nothing_is_prefetched_after_a_deferral(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    slots = Slots(64)
    capped = settings.model_copy(update={"tenant_slots": 1})
    going_on = asyncio.Event()

    async def wait(*_: Any) -> None:
        await going_on.wait()

    wanted = [make_submission(settings.queue, session) for session in ("a", "b")]
    await submit(database, wanted, resend_seconds=FOR_EVER)
    for _ in range(200):
        slots.take()
        slots.give_back(0.1)
    assert slots.ahead() > 0
    with processing(capped, database, lock, "w", Handler(wait), slots=slots) as processor:
        first = asyncio.create_task(processor.process(message_about(wanted[0].turn_id, "a")))
        await until(lambda: slots._free < 64)
        await processor.process(message_about(wanted[1].turn_id, "b"))

        assert slots._turned_away_at > 0
        going_on.set()
        await first


async def test_a_turn_that_is_abandoned_while_it_waits_loses_no_slot(room: Room) -> None:
    assert room.slots.take()
    await room.in_line("a")

    # In one step of the loop: the slot is assigned, and the turn is cancelled.
    room.slots.give_back()
    await room.abandon_last()

    assert room.slots.take()
    room.slots.give_back()


async def test_a_handler_that_was_left_behind_keeps_its_slot(room: Room) -> None:
    deaf = await room.running(STUBBORN)
    room.cancel_last()
    assert await until(lambda: room.ended(deaf)) == "CANCELED"

    await room.in_line("b")
    assert room.began == [STUBBORN]

    room.may_end.set()
    await room.through()
    assert room.began == [STUBBORN, "b"]


async def test_the_waiting_time_counts_neither_for_the_deadline_nor_for_the_renewals(room: Room) -> None:
    await room.running("a")
    await room.in_line("b", timeout_seconds=60)
    kept, began = room.kept[-1], time.monotonic()
    until_then = kept.renew_until
    await until(lambda: time.monotonic() > began + 0.2)
    before = datetime.now(UTC)

    room.may_end.set()
    await room.through()

    assert kept.renew_until >= until_then + 0.2
    assert room.deadlines[-1] >= before + timedelta(seconds=60)
