"""The relay's loop: it outlasts outages, is started early by a nudge, and sends in the next round what a round leaves over."""

import asyncio

import pytest

import turnstile.relay.loop
import turnstile.relay.queue_selection
from tests.relay.relays import Sender, Sqs, make_due, rows, submit_due, take
from tests.statements.calls import FAILURE
from tests.support.claims import claim_one, settle_one, submit_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.relay.loop import Relay
from turnstile.relay.wake_ups_and_dead_letters import SIDE_BY_SIDE


async def test_with_sqs_away_rows_stay_owed_and_due(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    nowhere = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": "http://127.0.0.1:1"}))
    await submit_turns(database, settings, "one", "two")
    await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    await make_due(database)

    await Relay(of_relay, nowhere, settings).round()

    await nowhere.close()
    failed, waiting = await rows(database)
    # Given back at once, for other relays.
    assert waiting["send_in"] < 0
    assert failed["send_in"] < 0
    assert (waiting["sends"], failed["dead_lettered_at"]) == (0, None)

    await relay.round()

    await take(queues, settings)
    await take(queues, settings, dead=True)


async def test_no_call_begins_after_the_stamp_has_expired(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    expired = asyncio.Event()

    async def too_long() -> None:
        async def is_over() -> bool:
            # Seen once for all calls: the first one that goes on gives its rows a later `send_at`.
            if all(row["send_in"] < 0 for row in await rows(database)):
                expired.set()
            return expired.is_set()

        await until(is_over)

    # Long enough for all calls to begin on a busy machine.
    short = settings.model_copy(update={"relay_stamp_seconds": 1.0})
    begun = SIDE_BY_SIDE * BATCH
    await submit_turns(database, settings, *[f"session {n}" for n in range(begun + 15)])
    await make_due(database)

    await Relay(of_relay, Sender(queues, too_long), short).round()

    # Another relay may have them by now: two that both go on would send all of it twice, and neither would count it.
    assert [row["sends"] for row in await rows(database)].count(0) == 15
    await take(queues, settings, begun)
    await relay.round()
    await take(queues, settings, 15)
    assert {row["sends"] for row in await rows(database)} == {1}


async def test_the_loop_goes_on_after_an_outage_of_sqs(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues
) -> None:
    tries = 0

    async def away_at_first() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise QueueUnavailableError("away")

    quick = settings.model_copy(update={"relay_stamp_seconds": 0.05, "relay_tick_seconds": 0.05})
    stopping = asyncio.Event()
    await submit_turns(database, settings, "one")
    await make_due(database)

    running = asyncio.create_task(Relay(of_relay, Sender(queues, away_at_first), quick).run(stopping))
    await take(queues, settings)
    stopping.set()
    await running

    assert tries == 3


async def test_a_nudge_starts_a_round_before_the_tick(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues
) -> None:
    stopping = asyncio.Event()
    relay = Relay(of_relay, queues, settings.model_copy(update={"relay_tick_seconds": 3600.0}))
    running = asyncio.create_task(relay.run(stopping))
    await until(lambda: relay._forgot_at["records"] > 0)  # its first round is over
    await submit_turns(database, settings, "one")
    await make_due(database)

    relay.nudge()

    await take(queues, settings)
    stopping.set()
    await asyncio.wait_for(running, 10)


@pytest.mark.parametrize("scheduled", [True, False], ids=["to be placed", "to be sent"])
async def test_what_a_round_leaves_over_does_not_wait_for_the_tick(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    await submit_due(database, settings.queue, 5)
    if scheduled:
        monkeypatch.setattr(turnstile.relay.loop, "BATCH", 2)
        await database.fetch("UPDATE turns SET seq = NULL, execute_at = send_at", {})
    else:
        monkeypatch.setattr(turnstile.relay.queue_selection, "BATCH", 2)
    sqs, stopping = Sqs(), asyncio.Event()
    rare = settings.model_copy(update={"relay_tick_seconds": 3600.0})
    running = asyncio.create_task(Relay(of_relay, sqs, rare).run(stopping))

    await until(lambda: len(sqs.sent) == 5)

    stopping.set()
    await running


class Slow(Sqs):
    """Takes nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_take = asyncio.Event()

    async def _take(self, queue: str, many: int) -> None:
        await self.may_take.wait()
        await super()._take(queue, many)


async def test_what_is_placed_during_a_send_does_not_wait_for_the_tick(
    database: Database, of_relay: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.relay.loop, "BATCH", 2)
    await submit_due(database, settings.queue, 3)
    await database.fetch("UPDATE turns SET seq = NULL, execute_at = send_at", {})
    sqs, stopping = Slow(), asyncio.Event()
    rare = settings.model_copy(update={"relay_tick_seconds": 3600.0})
    running = asyncio.create_task(Relay(of_relay, sqs, rare).run(stopping))

    async def all_are_placed() -> bool:
        return not await database.fetch("SELECT FROM turns WHERE seq IS NULL", {})

    await until(all_are_placed)
    sqs.may_take.set()
    await until(lambda: len(sqs.sent) == 3)

    stopping.set()
    await running
