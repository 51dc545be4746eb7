"""What a worker counts on the way of a message: what it received, what it could not read, the locks, the waiting."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from tests.support.claims import submit_turns
from tests.support.metric_readings import reading, rising
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.statements.settle import SETTLE
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.consumer import Consumer
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import SessionLock, name_lock
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight

ACQUISITIONS = "turnstile_session_lock_acquisitions_total"


async def test_a_turn_that_begins_has_waited_and_its_session_was_locked(
    database: Database, settings: Settings, lock: SessionLock
) -> None:
    [turn_id] = await submit_turns(database, settings, "one")
    await database.fetch("UPDATE turns SET queued_at = queued_at - interval '100 s'", {})
    waited = reading("turnstile_turn_waiting_seconds_sum", queue="turns") or 0.0

    with (
        rising("turnstile_turn_waiting_seconds_count", queue="turns"),
        rising(ACQUISITIONS, queue="turns", result="locked"),
        rising("turnstile_session_lock_wait_seconds_count", queue="turns"),
        rising("turnstile_session_lock_hold_seconds_count", queue="turns"),
        processing(settings, database, lock, "worker-a") as processor,
        capture_logs() as lines,
    ):
        await processor.process(message_about(turn_id))

    [claimed] = [line for line in lines if line["event"] == "turn.claimed"]
    assert 100 <= claimed["waited_seconds"] < 160, "where metrics are made of log lines"
    assert 100 <= (reading("turnstile_turn_waiting_seconds_sum", queue="turns") or 0.0) - waited < 160


async def test_a_busy_session_is_an_acquisition_that_holds_nothing(
    database: Database, settings: Settings, lock: SessionLock
) -> None:
    await lock.acquire(name_lock(settings, "t", "s", "another worker"))

    with (
        rising(ACQUISITIONS, queue="turns", result="busy"),
        rising("turnstile_session_lock_hold_seconds_count", 0, queue="turns"),
        rising("turnstile_session_lock_wait_seconds_count", 0, queue="turns"),
        processing(settings, database, lock, "worker-a") as processor,
    ):
        await processor.process(message_about(uuid4()))


async def test_a_message_without_a_row_is_counted(database: Database, settings: Settings, lock: SessionLock) -> None:
    with (
        rising("turnstile_messages_phantom_total", queue="turns"),
        processing(settings, database, lock, "worker-a") as processor,
    ):
        await processor.process(message_about(uuid4()))


async def test_a_message_that_can_t_be_read_is_counted(
    database: Database, settings: Settings, lock: SessionLock
) -> None:
    unreadable = ReceivedMessage("id", "nobody understands this", "handle", 1, {}, False)

    with (
        rising("turnstile_messages_malformed_total", queue="turns"),
        processing(settings, database, lock, "worker-a") as processor,
    ):
        await processor.process(unreadable)


async def test_what_polls_bring_is_counted() -> None:
    stopping = asyncio.Event()

    class Queues:
        async def receive(self, *_: Any, **__: Any) -> list[ReceivedMessage]:
            stopping.set()
            return [message_about(uuid4()) for _ in range(3)]

        async def give_back(self, *_: Any, **__: Any) -> None:
            return

    async def process(_: ReceivedMessage) -> None:
        return

    consumer = Consumer(
        cast("MessageQueues", Queues()), "polled", Slots(10), TurnsInFlight(), cast("Any", process), stopping
    )

    with rising("turnstile_messages_received_total", 3, queue="polled"):
        await consumer.run()


@pytest.mark.parametrize(("looks", "lost", "refused"), [(False, 0, 1), (True, 1, 0)], ids=["at the settle", "before"])
async def test_a_claim_that_another_one_has_replaced_is_counted_where_it_is_noticed(
    database: Database, settings: Settings, lock: SessionLock, looks: bool, lost: int, refused: int
) -> None:
    async def lose(_: Turn, ctx: Context) -> str:
        await database.fetch("UPDATE turns SET fence = nextval('fence_seq'), claim_id = gen_random_uuid()", {})
        if looks:
            await ctx.once("look", lambda: 1)
        return "too late"

    [turn_id] = await submit_turns(database, settings, "one")

    with (
        rising("turnstile_leases_lost_total", lost, queue="turns"),
        rising("turnstile_superseded_settles_total", refused, queue="turns"),
        processing(settings, database, lock, "worker-a", Handler(lose)) as processor,
    ):
        await processor.process(message_about(turn_id))


async def test_a_turn_that_ends_as_usual_has_lost_no_lease(
    database: Database, settings: Settings, lock: SessionLock
) -> None:
    """A renewal that meets the turn's own settle is refused, and says nothing of another claim."""
    taken: list[HeartbeatEntry] = []

    stops: list[Callable[..., None]] = []

    async def act(*_: object) -> str:
        stops.extend(kept.stop for kept in taken if kept.stop is not None)
        return "reply"

    [turn_id] = await submit_turns(database, settings, "one")
    settled = NotedSettle(database, lambda: (taken[0].turn is not None, taken[0].stop))

    with (
        rising("turnstile_leases_lost_total", 0, queue="turns"),
        processing(settings, cast("Any", settled), lock, "worker-a", Handler(act), taken=taken) as processor,
    ):
        await processor.process(message_about(turn_id))
        [stop] = stops
        stop(StopReason.SUPERSEDED)

    # Meanwhile its lease is kept, and the heartbeat has nothing to stop.
    assert settled.noted == [(True, None)]


class NotedSettle:
    """The database, and what `look` has said at each settle."""

    def __init__(self, database: Database, look: Callable[[], object]) -> None:
        self._database = database
        self._look = look
        self.noted: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch_pipelined(self, statements: Sequence[Any]) -> Any:
        self.noted += [self._look() for statement, _ in statements if statement == SETTLE]
        return await self._database.fetch_pipelined(statements)
