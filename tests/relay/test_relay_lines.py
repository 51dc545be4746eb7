"""Each queue is a line of its own to a relay: a long, silent or refused queue delays no other queue."""

import asyncio

import pytest
from structlog.testing import capture_logs

import turnstile.relay.loop
import turnstile.relay.queue_selection
from tests.relay.relays import Sqs, declaring, make_due, rows, submit_due
from tests.statements.calls import FAILURE
from tests.support.claims import claim_one, settle_one, submit_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay
from turnstile.relay.wake_ups_and_dead_letters import SIDE_BY_SIDE


async def test_due_turns_of_one_queue_do_not_wait_for_the_backlog_of_another(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.relay.queue_selection, "BATCH", 20)
    await submit_due(database, settings.queue, 21, since_seconds=100.0)
    await submit_due(database, "few", 3)
    sqs = Sqs()

    await Relay(of_relay, sqs, declaring(settings, "few")).round()

    assert sqs.sent.count("few") == 3
    assert sqs.sent.count(settings.queue) == 20


async def test_scheduled_turns_of_one_queue_do_not_wait_for_those_of_another(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.relay.loop, "BATCH", 20)
    await submit_due(database, settings.queue, 21, since_seconds=100.0)
    await submit_due(database, "few", 3)
    await database.fetch("UPDATE turns SET seq = NULL, execute_at = send_at", {})

    await Relay(of_relay, Sqs(), declaring(settings, "few")).round()

    assert [row["seq"] for row in await rows(database) if row["queue"] == "few"] == [2, 2, 2]


async def test_a_silent_queue_delays_no_other(database: Database, of_relay: Database, settings: Settings) -> None:
    await submit_due(database, "silent", 3)
    sqs, stopping = Sqs(silent=["silent"]), asyncio.Event()
    relay = Relay(of_relay, sqs, declaring(settings, "silent"))
    running = asyncio.create_task(relay.run(stopping))
    try:
        await until(lambda: sqs.calls == ["silent"])

        await submit_due(database, settings.queue, 3)
        relay.nudge()

        await until(lambda: sqs.sent == [settings.queue] * 3)
        assert sqs.calls.count("silent") == 1, "what is under way is not asked for again"
    finally:
        running.cancel()


async def test_a_relay_takes_no_rows_of_an_undeclared_queue(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await submit_due(database, "elsewhere", 3)
    before = [row["send_at"] for row in await rows(database)]

    assert await Relay(of_relay, Sqs(), settings).round() is False

    assert [row["send_at"] for row in await rows(database)] == before


async def test_rows_that_one_relay_may_not_send_are_sent_by_another_at_once(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await submit_due(database, settings.queue, 25)
    before = [row["send_at"] for row in await rows(database)]
    may_not, may = Sqs(refused=[settings.queue]), Sqs()

    with capture_logs() as lines:
        await Relay(of_relay, may_not, settings).round()

    assert [row["send_at"] for row in await rows(database)] == before, "as old as it was, for the doctor to see"
    [line] = [line for line in lines if line["event"] == "relay.not_sent"]
    assert (line["queue"], line["turns"]) == (settings.queue, 25)
    await Relay(of_relay, may, settings).round()
    assert may.sent == [settings.queue] * 25


async def test_a_missing_dlq_delays_no_wake_up(database: Database, of_relay: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "fails")
    await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await submit_due(database, settings.queue, 2)
    await make_due(database)
    sqs = Sqs(refused=[f"{settings.queue}-dlq"])
    relay = Relay(of_relay, sqs, settings)

    await relay.round()
    await make_due(database)
    await relay.round()

    assert sqs.sent == [settings.queue] * 4
    assert sqs.calls.count(f"{settings.queue}-dlq") == 1


async def test_calls_of_a_queue_go_side_by_side(database: Database, of_relay: Database, settings: Settings) -> None:
    await submit_due(database, settings.queue, 80)
    together = asyncio.Event()

    class Counting(Sqs):
        under_way = most = 0

        async def _take(self, queue: str, many: int) -> None:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            if self.under_way == SIDE_BY_SIDE:
                together.set()
            await together.wait()
            await super()._take(queue, many)
            self.under_way -= 1

    sqs = Counting()
    await asyncio.wait_for(Relay(of_relay, sqs, settings).round(), 60)

    assert sqs.most == SIDE_BY_SIDE
    assert {row["sends"] for row in await rows(database)} == {1}
