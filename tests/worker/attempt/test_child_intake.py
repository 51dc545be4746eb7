"""Wake-ups of children: an SQS that is away, or a missing queue, delays no child of another queue."""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest

from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.redis_hands import OwnCancelHints
from tests.worker.attempt.child_turns import Family, NoQueues
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.submission import wake_ups
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import OutgoingMessage
from turnstile.worker.attempt.child_intake import ChildIntake


async def test_children_are_started_while_sqs_is_away_and_few_sends_are_tried(
    family: Family, parent: ClaimedTurn, no_queues: NoQueues
) -> None:
    run = family.run(parent)

    for _ in range(10):
        await family.start(run)

    assert len(await family.database.fetch("SELECT 1 FROM turns WHERE send_at IS NOT NULL", {})) == 10
    assert no_queues.asked < 10


class OneSilentQueue:
    """`silent` does not respond before its gate is open, and then refuses; every other queue accepts all."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.taken: list[UUID] = []

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> Sequence[OutgoingMessage]:
        if queue == "silent":
            await self.gate.wait()
            raise UnknownQueueError("silent")
        self.taken += [message.wake_up.turn_id for message in messages]
        return messages


@pytest.fixture
def one_silent() -> OneSilentQueue:
    return OneSilentQueue()


@pytest.fixture
def with_silent(
    settings: Settings, database: Database, one_silent: OneSilentQueue, hints: OwnCancelHints
) -> ChildIntake:
    silent = QueueSettings(name="silent", visibility_seconds=4.0)
    both = settings.model_copy(update={"queues": (*settings.queues, silent)})
    return ChildIntake(both, database, cast("MessageQueues", one_silent), hints, None)


async def test_a_missing_queue_delays_no_wake_up_of_another_queue(
    settings: Settings, one_silent: OneSilentQueue, with_silent: ChildIntake
) -> None:
    one_silent.gate.set()
    for number in range(5):
        await with_silent.accept(make_submission("silent", f"silent-{number}"))

    child = await with_silent.accept(make_submission(settings.queue, "other"))

    assert one_silent.taken == [child.turn_id]


async def test_wake_ups_of_several_queues_are_sent_side_by_side(
    settings: Settings, one_silent: OneSilentQueue, with_silent: ChildIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_ups, "PATIENCE_SECONDS", 60.0)
    # The silent one first, and in one batch with the other: both wait when the first batch begins.
    queues = ("silent", settings.queue)
    started = [asyncio.create_task(with_silent.accept(make_submission(queue, queue))) for queue in queues]

    await until(lambda: one_silent.taken)
    one_silent.gate.set()
    silent, other = await asyncio.gather(*started)

    assert one_silent.taken == [other.turn_id]
    assert silent.queue == "silent"
