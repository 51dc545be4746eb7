"""The heartbeat while SQS hangs or responds late: messages can wait for their extension, leases can't."""

import asyncio
from datetime import datetime

import pytest
from structlog.testing import capture_logs

import turnstile.backends.sqs.credentials
import turnstile.message_queue
from tests.support.claims import claimed, submit_turns
from tests.support.heartbeats import Beating, beating_against, keep_messages
from tests.support.late_sqs import late
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import BATCH, MessageQueues


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A lease that runs out before SQS is given up."""
    return settings.model_copy(update={"lease_seconds": 1.8})


async def keep_a_turn(beating: Beating, database: Database, settings: Settings) -> None:
    """Submits and claims a turn that the heartbeat keeps alive."""
    await submit_turns(database, settings, "one")
    beating.keep(await claimed(database, settings))


async def renewed_more_than_three_times(database: Database) -> None:
    """Waits until it has; fails if the lease runs out before."""
    leases: set[datetime] = set()

    async def renewed_often() -> bool:
        [row] = await database.fetch("SELECT lease_until, lease_until > now() AS alive FROM turns", {})
        assert row["alive"]
        leases.add(row["lease_until"])
        return len(leases) > 4

    await until(renewed_often)


async def test_leases_are_renewed_at_every_beat_while_sqs_does_not_respond(
    settings: Settings, database: Database
) -> None:
    async with late() as sqs, beating_against(sqs, settings) as beating:
        await keep_a_turn(beating, database, settings)
        keep_messages(beating, 30)
        beating.heartbeat.start()

        await renewed_more_than_three_times(database)

        assert sqs.extended
        assert beating.stops == []


async def test_messages_are_extended_by_one_call_at_a_time_and_again_when_sqs_responds(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.message_queue, "EXTEND_SECONDS", 60.0)
    with capture_logs() as lines:
        async with late() as sqs, beating_against(sqs, settings) as beating:
            keep_messages(beating, 1)
            beating.heartbeat.start()
            await until(lambda: beating.beats > 3)

            assert len(sqs.extended) == 1
            assert "heartbeat.extension_late" in [line["event"] for line in lines]
            sqs.may_answer.set()
            await until(lambda: len(sqs.extended) > 3)


async def test_a_message_that_is_dropped_while_others_are_extended_is_not_extended(
    settings: Settings, database: Database
) -> None:
    """If it was given back meanwhile, the extension would hide it."""
    async with late() as sqs, beating_against(sqs, settings) as beating:
        kept = keep_messages(beating, BATCH + 2)
        beating.heartbeat.start()
        await until(lambda: sqs.extended)
        beating.heartbeat.drop(kept[BATCH])
        kept[BATCH + 1].message = None

        sqs.may_answer.set()

        await until(lambda: len(sqs.extended) > 3)
        assert {handle for handles in sqs.extended for handle in handles} == {f"handle-{n}" for n in range(BATCH)}


async def test_a_stopped_heartbeat_extends_no_message(settings: Settings, database: Database) -> None:
    async with late() as sqs, beating_against(sqs, settings) as beating:
        keep_messages(beating, 3 * BATCH)
        beating.heartbeat.start()
        await until(lambda: sqs.extended)

        await asyncio.to_thread(beating.heartbeat.stop, 0.0)
        sqs.may_answer.set()
        await asyncio.to_thread(beating.heartbeat.stop, 40.0)

        assert len(sqs.extended) == 1


async def test_a_bug_of_the_extension_is_logged_and_the_next_beat_tries_again(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(MessageQueues, "extend", broken)
        async with late() as sqs, beating_against(sqs, settings) as beating:
            sqs.may_answer.set()
            keep_messages(beating, 1)
            beating.heartbeat.start()
            await until(lambda: [line["event"] for line in lines].count("heartbeat.failed") > 1)
            patched.undo()

            await until(lambda: sqs.extended)
