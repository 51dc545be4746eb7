"""A relay's round that is cancelled, at whichever await, leaves no queue busy: the next round sends what is due."""

import pytest

from tests.relay.relays import Sqs, submit_due
from tests.support.cancelling import Cancel, cancel_at_each_await
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay


@pytest.mark.parametrize("how", Cancel)
async def test_a_round_that_is_cancelled_at_any_await_leaves_its_queue_free(
    database: Database, settings: Settings, how: Cancel
) -> None:
    sqs = Sqs()
    relay = Relay(database, sqs, settings)
    await submit_due(database, settings.queue, 1)

    async for _ in cancel_at_each_await(relay.round, how):
        await relay.settled()
        await submit_due(database, settings.queue, 1)
        sqs.sent.clear()

        await relay.round()

        assert sqs.sent
        await submit_due(database, settings.queue, 1)
