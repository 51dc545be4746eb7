"""A message that is given back meets the heartbeat, which has just asked SQS to keep it invisible."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

import turnstile.message_queue
import turnstile.worker.heartbeat
from tests.support.beating import beating_against, hold_messages
from tests.support.late_sqs import LateSqs, late
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.message import WakeUp
from turnstile.worker.aside import Aside
from turnstile.worker.delivery import Delivery
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.session_release import SessionRelease
from turnstile.worker.session_run import SessionRun


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat every second."""
    return settings.model_copy(update={"lease_seconds": 3.0})


async def leave(heartbeat: Heartbeat, sqs: LateSqs, settings: Settings, hold: SessionRun) -> None:
    """As the processor does where somebody sits on the row of the session's head."""
    queue = QueueSettings(name="q", sqs=sqs.address, dlq=sqs.address)
    here = settings.model_copy(update={"sqs_endpoint_url": sqs.address, "queues": (queue,)})
    queues, not_asked = MessageQueues(here), cast("Any", None)
    delivery = Delivery(here, queue, not_asked, queues, not_asked)
    bench = SimpleNamespace(
        heartbeat=heartbeat, database=not_asked, message_stays=lambda _: None, nudge_relay=not_asked
    )
    heartbeat.drop(hold.kept)
    await SessionRelease(cast("Any", bench), delivery, not_asked).leave_message(hold)
    await queues.close()


async def test_a_message_is_given_back_when_its_extension_is_over(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the extension might come last, and hide for minutes what was to be visible in a second."""
    monkeypatch.setattr(turnstile.message_queue, "EXTEND_SECONDS", 60.0)
    monkeypatch.setattr(turnstile.worker.heartbeat, "LATE_SECONDS", 60.0)
    async with late(None) as sqs, beating_against(sqs, settings) as beating:
        [kept] = hold_messages(beating, 1)
        assert kept.message is not None
        hold = SessionRun(WakeUp("t", "s", UUID(int=1)), kept.message, None, kept)
        beating.heartbeat.start()
        await until(lambda: sqs.extended)

        waits = threading.Event()
        finish = Aside.finish

        async def note(aside: Aside, seconds: float) -> None:
            waits.set()
            await finish(aside, seconds)

        monkeypatch.setattr(Aside, "finish", note)
        leaving = asyncio.create_task(leave(beating.heartbeat, sqs, settings, hold))
        await until(lambda: waits.is_set() or len(sqs.extended) > 1)
        assert len(sqs.extended) == 1

        sqs.may_answer.set()
        await leaving
        assert sqs.extended == [["handle-0"], ["handle-0"]]
