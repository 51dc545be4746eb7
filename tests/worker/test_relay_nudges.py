"""A worker notifies its relay at once when it leaves something to be sent: a dead letter, or a wake-up for a turn that it does
not run itself. Otherwise it says nothing."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.support.claims import claim_one, expire_leases, submit_turns
from tests.support.factories import make_submission
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.worker.session_lock import SessionLock

Nudges = Callable[..., Any]
LONG = 30.0


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A lease that does not run out during a test."""
    return settings.model_copy(update={"lease_seconds": LONG})


@pytest.fixture
def nudges(settings: Settings, database: Database, lock: SessionLock) -> Nudges:
    """Processes a wake-up of the session; says how often the relay was nudged."""

    async def process(handle: Callable[..., Any], stopping: asyncio.Event | None = None) -> int:
        nudged: list[None] = []
        with processing(
            settings, database, lock, "w", Handler(handle), stopping=stopping, nudge_relay=lambda: nudged.append(None)
        ) as processor:
            await processor.process(message_about(uuid4()))
        return len(nudged)

    return process


def answer(turn: Turn, _: Any) -> Any:
    return turn.input


def fail(_: Turn, __: Any) -> None:
    raise ValueError("no")


async def test_answered_turns_leave_nothing_to_be_sent(settings: Settings, database: Database, nudges: Nudges) -> None:
    await submit_turns(database, settings, "one", "two")

    assert await nudges(answer) == 0


async def test_a_failed_turn_leaves_a_dead_letter(settings: Settings, database: Database, nudges: Nudges) -> None:
    await submit_turns(database, settings, "one")

    assert await nudges(fail) == 1


async def test_a_worker_that_stops_leaves_the_next_turn(settings: Settings, database: Database, nudges: Nudges) -> None:
    await submit_turns(database, settings, "one", "two")
    stopping = asyncio.Event()

    async def stop(turn: Turn, _: Any) -> Any:
        stopping.set()
        return turn.input

    assert await nudges(stop, stopping) == 1
    rows = await database.fetch("SELECT status, send_at <= now() AS owed FROM turns ORDER BY seq", {})
    assert [tuple(row.values()) for row in rows] == [("SUCCEEDED", None), ("PENDING", True)]


async def test_a_turn_that_its_claim_ends_leaves_a_dead_letter(
    settings: Settings, database: Database, nudges: Nudges
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await expire_leases(database)
    (queue,) = settings.queues
    await database.fetch("UPDATE turns SET crashes = %(crashes)s", {"crashes": queue.max_crashes - 1})

    assert await nudges(answer) == 1


async def test_the_head_of_another_queue_is_left_to_its_worker(
    settings: Settings, database: Database, nudges: Nudges
) -> None:
    await submit(database, [make_submission("other")], resend_seconds=600.0)

    assert await nudges(answer) == 1
