"""Renew, where another transaction has the row for a moment. The rest is `test_renew`'s, on both stores."""

import pytest

from tests.support.claiming import claim_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.renew_lease import renew
from turnstile.turn.claimed_turn import ClaimedTurn


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)
    return claimed


async def test_a_row_that_is_locked_for_a_moment_is_still_ours(database: Database, turn: ClaimedTurn) -> None:
    async with database.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns FOR NO KEY UPDATE")

        (renewal,) = await renew(database, [(turn.id, turn.fence)], 600.0)

    assert (renewal.ours, renewal.renewed) == (True, False)
