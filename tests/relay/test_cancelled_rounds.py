"""A relay's round that is cancelled, at whichever await, leaves no queue busy: the next round sends what is due."""

from typing import LiteralString

import pytest

from tests.relay.relays import Sqs, submit_due
from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay

OTHERS_AT_WORK: LiteralString = """
SELECT 1 FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'
"""


async def abandoned_statements_end(database: Database) -> None:
    """A cancelled statement whose connection was closed may still run on the server, and take what becomes due meanwhile."""

    async def alone() -> bool:
        return not await database.fetch(OTHERS_AT_WORK, {})

    await until(alone)


@pytest.mark.parametrize("how", Cancel)
async def test_a_round_that_is_cancelled_at_any_await_leaves_its_queue_free(
    database: Database, of_relay: Database, settings: Settings, how: Cancel
) -> None:
    sqs = Sqs()
    relay = Relay(of_relay, sqs, settings)
    await submit_due(database, settings.queue, 1)

    async for _ in cancel_at_each_await(relay.round, how):
        await relay.settled()
        await abandoned_statements_end(database)
        await submit_due(database, settings.queue, 1)
        sqs.sent.clear()

        await relay.round()

        assert sqs.sent
        await submit_due(database, settings.queue, 1)
