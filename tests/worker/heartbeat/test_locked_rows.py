"""Another transaction has locked the rows of running turns: their worker says that it holds them, and renews them right after."""

import time

from tests.support.factories import Proven
from tests.support.heartbeats import Beating, beats_on, lease_of
from tests.support.probes import until
from tests.support.row_locks import rows_locked
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.lost_workers import LostWorkers
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_a_locked_row_stops_no_handler_and_its_session_lock_is_kept(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    with rows_locked(settings, "true"):
        kept = beating.keep(turn)
        kept.ours_at = 0.0

        await beats_on(beating)

    assert kept.ours_at > 0.0
    assert beating.stops == []


async def test_a_turn_whose_row_stays_locked_for_leases_is_not_lost(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.keep(turn)
    with rows_locked(settings, "true") as transaction:

        async def is_announced() -> bool:
            return (await database.fetch("SELECT unrenewed FROM workers", {})) == [{"unrenewed": [turn.id]}]

        await until(is_announced)
        # As if the lock had been there for long.
        transaction.execute("UPDATE turns SET lease_until = now() - interval '1 h'")
        transaction.commit()
        await LostWorkers(database, settings, Proven()).mark()

    assert (await database.fetch("SELECT send_at FROM turns", {})) == [{"send_at": None}]


async def test_a_claim_that_is_renewed_again_is_no_longer_announced(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    async def announced() -> bool:
        return (await database.fetch("SELECT unrenewed FROM workers", {})) == [{"unrenewed": [turn.id]}]

    async def withdrawn() -> bool:
        return not await announced()

    beating.keep(turn)
    with rows_locked(settings, "true"):
        await until(announced)
    await until(withdrawn)


async def test_a_renewal_that_has_skipped_a_row_is_not_evidence(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    def allowed() -> bool:
        return beating.heartbeat.evidence.judge(time.monotonic()) is not None

    beating.keep(turn)
    await until(allowed)
    with rows_locked(settings, "true"):
        await until(lambda: not allowed())
    await until(allowed)


async def test_a_skipped_row_is_renewed_soon_after_its_lock_ends(
    settings: Settings, database: Database, beating_rarely: Beating, turn: ClaimedTurn
) -> None:
    first = await lease_of(database)
    beating_rarely.keep(turn)
    with rows_locked(settings, "true"):
        beating_rarely.heartbeat.start()
        await beats_on(beating_rarely, times=2)
        assert await lease_of(database) == first

    async def renewed() -> bool:
        return bool(await lease_of(database) > first)

    await until(renewed)
