"""The heartbeat with an SQS that hangs: messages can wait for their visibility, leases can't."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from tests.integration.test_claim import claim_one, submit_turns
from tests.integration.test_heartbeat import Beating
from tests.probes import until
from turns import boto3_transport
from turns.claimed_turn import ClaimedTurn
from turns.database import Database
from turns.envelope import QueueAddress, ReceivedMessage
from turns.message_queue import MessageQueues
from turns.settings import Settings
from worker.heartbeat import Held


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat every second."""
    return settings.model_copy(update={"lease_seconds": 3.0})


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """The address of a server that takes whatever it is told and never answers."""
    gone = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    gone.set()
    server.close()


async def test_leases_are_renewed_at_every_beat_while_sqs_answers_nothing(
    settings: Settings, database: Database, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In proportion to the short lease of this test; there it is two seconds of thirty.
    monkeypatch.setattr(boto3_transport, "EXTEND_SECONDS", 0.2)
    queues = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": silent}))
    beating = Beating(settings, queues, QueueAddress(settings.queue, f"{silent}/0/a", f"{silent}/0/d", 60.0))
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    beating.hold(turn)
    for number in range(30):
        beating.heartbeat.take(Held(None, ReceivedMessage(str(number), "", "handle", 1, {}, False)))
    leases: set[datetime] = set()

    async def renewed_often() -> bool:
        [row] = await database.fetch("SELECT lease_until, lease_until > now() AS alive FROM turns", {})
        assert row["alive"]
        leases.add(row["lease_until"])
        return len(leases) > 3

    beating.heartbeat.start()
    try:
        await until(renewed_often)
    finally:
        await asyncio.to_thread(beating.heartbeat.stop, 40.0)
        queues.close()
    assert beating.stops == []
