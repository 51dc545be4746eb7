"""Renew: the heartbeat's statement."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.statements.test_claim_races import claim_one, expire_leases, settle_one, submit_turns
from tests.support.probes import until
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.cancel import cancel
from turnstile.statements.renew_lease import Renewal, renew
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn

LEASE_SECONDS = 600.0


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def heart(settings: Settings) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """The heartbeat's own connection."""
    url = conninfo(settings.database_url, "heart", pinned=True)
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as opened:
        yield opened


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)
    return claimed


def beat(heart: psycopg.Connection[dict[str, Any]], *turns: ClaimedTurn) -> list[Renewal]:
    return renew(heart, [(turn.id, turn.fence) for turn in turns], LEASE_SECONDS)


async def lease_left(database: Database) -> float:
    rows = await database.fetch(
        "SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 AS left FROM turns", {}
    )
    return float(rows[0]["left"])


async def test_a_lease_is_renewed(
    database: Database, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    renewals = beat(heart, turn)

    assert renewals == [
        Renewal(turn.id, turn.fence, ours=True, renewed=True, cancel_requested=False, cancel_reason=None)
    ]
    assert await lease_left(database) > LEASE_SECONDS / 2


async def test_a_lease_that_ran_out_and_that_nobody_took_is_renewed(
    database: Database, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    await expire_leases(database)

    (renewal,) = beat(heart, turn)

    assert (renewal.ours, renewal.renewed) == (True, True)
    assert await lease_left(database) > LEASE_SECONDS / 2


async def test_a_renewal_is_refused_after_a_takeover_and_does_the_successor_no_harm(
    database: Database, settings: Settings, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    await expire_leases(database)

    async def taken_over() -> bool:
        return isinstance(await claim_one(database, settings, "worker-b"), ClaimedTurn)

    await until(taken_over)
    before = await database.fetch("SELECT * FROM turns", {})

    (renewal,) = beat(heart, turn)

    assert (renewal.ours, renewal.renewed) == (False, False)
    assert await database.fetch("SELECT * FROM turns", {}) == before


async def test_a_renewal_is_refused_after_the_settle(
    database: Database, settings: Settings, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    await settle_one(database, settings, turn)

    (renewal,) = beat(heart, turn)

    assert (renewal.ours, renewal.renewed) == (False, False)


async def test_a_row_that_is_locked_for_a_moment_is_still_ours(
    database: Database, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    async with database.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns FOR NO KEY UPDATE")

        (renewal,) = beat(heart, turn)

    assert (renewal.ours, renewal.renewed) == (True, False)


async def test_a_renewal_brings_the_cancel_home(
    database: Database, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    await cancel(database, "t", turn.id, CancelReason.USER)

    (renewal,) = beat(heart, turn)

    assert (renewal.renewed, renewal.cancel_requested, renewal.cancel_reason) == (True, True, "user")


async def test_many_are_renewed_at_once_and_each_is_told_its_own(
    database: Database, settings: Settings, heart: psycopg.Connection[dict[str, Any]], turn: ClaimedTurn
) -> None:
    gone = uuid4()

    renewals = renew(heart, [(turn.id, turn.fence), (turn.id, turn.fence - 1), (gone, 1)], LEASE_SECONDS)

    assert {(one.id, one.fence): (one.ours, one.renewed) for one in renewals} == {
        (turn.id, turn.fence): (True, True),
        (turn.id, turn.fence - 1): (False, False),
        (gone, 1): (False, False),
    }
