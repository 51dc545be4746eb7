"""A paused queue (M3): the relay sends none of its wake-ups, and after the pause each of them once."""

from typing import Any

import pytest

import turnstile.relay.loop
from tests.relay.relays import Sqs, submit_due
from tests.support.factories import Proven
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay
from turnstile.statements.paused_queues import pause_queue, resume_queue

WAITING = 1_200
"""More than a round takes."""
LONG_SECONDS = 7 * 86_400.0


async def test_after_a_pause_each_turn_that_waits_is_sent_once_however_long_the_pause_was(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    """Their former messages may be in SQS still: what is sent twice is skipped."""
    settings = settings.model_copy(update={"resend_seconds": 600.0})
    await submit_due(database, settings.queue, WAITING, since_seconds=LONG_SECONDS)
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    sqs = Sqs()
    relay = Relay(of_relay, sqs, settings, Proven())
    for _ in range(3):
        await relay.round()
    assert sqs.sent == []

    await resume_queue(database, settings.queue, resumed_by="ada")

    async def has_sent_all() -> bool:
        await relay.round()
        return len(sqs.sent) >= WAITING

    await until(has_sent_all)
    for _ in range(3):
        await relay.round()
    assert len(sqs.sent) == WAITING
    [row] = await database.fetch("SELECT min(send_at) > now() + interval '9 min' AS later FROM turns", {})
    assert row["later"], "the next message about them is not soon"


async def test_the_pauses_are_read_once_in_a_heartbeat_however_many_rounds_there_are(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[None] = []

    async def read(_: Database) -> dict[str, Any]:
        reads.append(None)
        return {}

    monkeypatch.setattr(turnstile.relay.loop, "read_paused_queues", read)
    rare = settings.model_copy(update={"lease_seconds": 7200.0, "heartbeat_seconds": 3600.0})
    relay = Relay(of_relay, Sqs(), rare, Proven())

    for _ in range(3):
        await relay.round()

    assert len(reads) == 1
