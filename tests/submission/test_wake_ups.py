"""Sending wake-ups at once: what one slow call to SQS means for the turns that come after it."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest

from tests.support.probes import until
from turnstile.errors import UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.submission import wake_ups as wake_up_sending
from turnstile.submission.wake_ups import WakeUpSending
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.wire_format import WakeUp

QUEUE = "chat"


class SlowQueues:
    """Takes every message, each batch once the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.batches = 0
        self.answered = 0

    async def send(self, _: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        self.batches += 1
        await self.gate.wait()
        self.answered += 1
        return list(messages)


class MissingQueues:
    """No queue has been created."""

    async def send(self, queue: str, _: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        raise UnknownQueueError(queue)


def wake_up(number: int) -> OutgoingMessage:
    message = WakeUp("acme", f"session-{number}", UUID(int=number))
    return OutgoingMessage(message, start_trace(secrets.randbits(192)).traceparent)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_up_sending, "PATIENCE_SECONDS", 0.05)
    # Or a machine that stands still lets a wake-up run out of time before it has a send of its own.
    monkeypatch.setattr(wake_up_sending, "COMPANY_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_one_late_batch_does_not_stop_later_sends() -> None:
    queues = SlowQueues()
    sending = WakeUpSending(cast("MessageQueues", queues), [QUEUE])
    late = await asyncio.gather(*(sending.send(QUEUE, wake_up(number)) for number in range(10)))
    assert (late, queues.batches) == ([False] * 10, 1)

    queues.gate.set()

    assert not sending._lanes[QUEUE].breaker.is_open
    assert await sending.send(QUEUE, wake_up(10))


@pytest.mark.usefixtures("impatient")
async def test_a_late_response_does_not_end_the_pause() -> None:
    queues = SlowQueues()
    sending = WakeUpSending(cast("MessageQueues", queues), [QUEUE])
    for number in range(wake_up_sending.THRESHOLD):
        await sending.send(QUEUE, wake_up(number))
    await until(lambda: sending._lanes[QUEUE].breaker.is_open)

    queues.gate.set()
    await until(lambda: queues.answered == wake_up_sending.THRESHOLD)

    assert sending._lanes[QUEUE].breaker.is_open


@pytest.mark.usefixtures("impatient")
async def test_late_batches_in_a_row_pause_the_sends() -> None:
    queues = SlowQueues()
    sending = WakeUpSending(cast("MessageQueues", queues), [QUEUE])
    for number in range(wake_up_sending.THRESHOLD):
        assert not await sending.send(QUEUE, wake_up(number))

    await until(lambda: sending._lanes[QUEUE].breaker.is_open)
    assert not await sending.send(QUEUE, wake_up(10))
    assert queues.batches == wake_up_sending.THRESHOLD


async def test_a_missing_queue_pauses_the_sends() -> None:
    sending = WakeUpSending(cast("MessageQueues", MissingQueues()), [QUEUE])

    for number in range(wake_up_sending.THRESHOLD):
        assert not await sending.send(QUEUE, wake_up(number))

    assert sending._lanes[QUEUE].breaker.is_open


async def test_a_send_that_is_answered_in_time_never_counts_as_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_up_sending, "PATIENCE_SECONDS", 0.5)
    queues, patience_over = SlowQueues(), asyncio.Event()
    queues.gate.set()
    sending = WakeUpSending(cast("MessageQueues", queues), [QUEUE])
    for number in range(wake_up_sending.THRESHOLD):
        await sending.send(QUEUE, wake_up(number))

    # Timers end in their order, and those of the sends are older.
    asyncio.get_running_loop().call_later(wake_up_sending.PATIENCE_SECONDS, patience_over.set)
    await patience_over.wait()

    assert not sending._lanes[QUEUE].breaker.is_open
