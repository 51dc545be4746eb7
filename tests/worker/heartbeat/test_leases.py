"""The heartbeat renews leases, also while the event loop is blocked, and stops an attempt whose claim is over."""

import asyncio
import time
from datetime import datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from structlog.testing import capture_logs

import turnstile.worker.heartbeat
from tests.producer.api.network_faults import at_port
from tests.support.claims import claim_one, claim_sessions, expire_leases, settle_one, submit_turns
from tests.support.factories import Proven
from tests.support.heartbeats import Beating, beats_on, block_loop_until, lease_of
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.lost_workers import LostWorkers
from turnstile.statements.cancel import cancel
from turnstile.statements.renew_lease import Renewals, renew
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.outcome import StopReason


async def test_a_lease_is_renewed_while_the_registry_row_of_the_worker_is_locked(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    await until(lambda: beating.beats > 1)
    with psycopg.connect(settings.database_url) as other:
        assert other.execute("SELECT FROM workers FOR UPDATE").rowcount == 1
        beating.keep(turn)
        first = await lease_of(database)

        async def renewed_past_its_first_lease() -> bool:
            [row] = await database.fetch(
                "SELECT lease_until > now() AND %(first)s::timestamptz < now() AS so FROM turns", {"first": first}
            )
            return bool(row["so"])

        await until(renewed_past_its_first_lease)


async def test_a_lease_is_renewed_while_the_event_loop_is_blocked(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.keep(turn)
    first = await lease_of(database)
    with psycopg.connect(settings.database_url, autocommit=True) as connection:

        def renewed_past_its_first_lease() -> bool:
            found = connection.execute("SELECT lease_until > now() AND %s < now() FROM turns", [first]).fetchone()
            return found == (True,)

        block_loop_until(renewed_past_its_first_lease)

    assert beating.stops == []


async def test_a_dropped_turn_is_not_renewed(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.keep(turn)
    await beats_on(beating)

    beating.heartbeat.drop(kept)

    await until(lambda: _taken_over(database, settings))


async def test_a_turn_past_its_deadline_is_not_renewed(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.keep(turn, renew_until=time.monotonic())

    await until(lambda: _taken_over(database, settings))
    await beats_on(beating)

    assert beating.stops == []


async def _taken_over(database: Database, settings: Settings) -> bool:
    await LostWorkers(database, settings, Proven()).mark()
    return isinstance(await claim_one(database, settings, "worker-b"), ClaimedTurn)


async def test_a_refused_renewal_stops_the_attempt(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    await expire_leases(database)
    await until(lambda: _taken_over(database, settings))

    beating.keep(turn)

    await until(lambda: beating.stops)
    assert set(beating.stops) == {StopReason.SUPERSEDED}


async def test_a_cancel_stops_the_attempt_with_the_rows_reason_and_the_lease_is_kept(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.keep(turn)
    await cancel(database, "t", turn.id, CancelReason.SUPERSEDED)

    await until(lambda: beating.stops)

    before = await lease_of(database)

    async def renewed() -> bool:
        return bool(await lease_of(database) > before)

    await until(renewed)
    assert set(beating.stops) == {StopReason.CANCELED}
    assert set(beating.cancel_reasons) == {CancelReason.SUPERSEDED}


async def test_a_nudge_renews_a_turn_at_once(
    settings: Settings, queues: MessageQueues, database: Database, turn: ClaimedTurn
) -> None:
    """The next beat would be an hour away."""
    rare = settings.model_copy(update={"lease_seconds": 7200.0, "heartbeat_seconds": 3600.0})
    beating = Beating(rare, queues, await queues.find(settings.queue))
    beating.heartbeat.start()
    await until(lambda: beating.beats)
    beating.keep(turn)
    await cancel(database, "t", turn.id, CancelReason.USER)

    beating.heartbeat.nudge(turn.id)

    await until(lambda: beating.stops)
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
    assert not beating.heartbeat._thread.is_alive()


async def test_a_nudge_renews_its_turn_and_no_other(
    settings: Settings, queues: MessageQueues, database: Database
) -> None:
    """A client that can publish hints must not cause writes of all rows. The next beat would be an hour away."""
    await submit_turns(database, settings, "one", session_id="a")
    await submit_turns(database, settings, "one", session_id="b")
    turns = await claim_sessions(database, settings, "a", "b")
    rare = settings.model_copy(update={"lease_seconds": 7200.0, "heartbeat_seconds": 3600.0})
    beating = Beating(rare, queues, await queues.find(settings.queue))
    beating.heartbeat.start()
    await until(lambda: beating.paused)
    for turn in turns:
        beating.keep(turn)

    async def leases() -> list[Any]:
        return [
            row["lease_until"] for row in await database.fetch("SELECT lease_until FROM turns ORDER BY session_id", {})
        ]

    found = [await leases()]
    for place, turn in enumerate(turns):
        beating.heartbeat.nudge(turn.id)

        async def renewed(place: int = place) -> bool:
            return bool((await leases())[place] != found[-1][place])

        await until(renewed)
        found.append(await leases())
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)

    assert found[1][1] == found[0][1]
    assert found[2][0] == found[1][0]


async def test_nudges_without_a_pause_keep_no_other_lease_from_being_renewed(
    settings: Settings, database: Database, beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may publish hints as fast as it can."""
    await submit_turns(database, settings, "one", session_id="nudged")
    await submit_turns(database, settings, "one", session_id="other")
    nudged, other = await claim_sessions(database, settings, "nudged", "other")

    async def nudge_and_renew(*given: Any) -> Renewals:
        beating.heartbeat.nudge(nudged.id)
        return await renew(*given)

    monkeypatch.setattr(turnstile.worker.heartbeat, "renew", nudge_and_renew)
    for turn in (nudged, other):
        beating.keep(turn)
    leases: set[datetime] = set()

    async def renewed_often() -> bool:
        [row] = await database.fetch("SELECT lease_until FROM turns WHERE id = %(id)s", {"id": other.id})
        leases.add(row["lease_until"])
        return len(leases) > 3

    await until(renewed_often)


async def test_a_renewal_that_postgres_refuses_is_a_failure_for_the_evidence(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a permission that is missing. The next one comes before the gap alone would say so."""
    failures: list[str] = []

    async def refuse(*_: Any) -> Renewals:
        raise psycopg.errors.InsufficientPrivilege

    monkeypatch.setattr(beating.heartbeat.evidence, "failed", lambda: failures.append("failed"))
    monkeypatch.setattr(turnstile.worker.heartbeat, "renew", refuse)

    await until(lambda: failures)


async def test_a_nudge_about_an_unknown_turn_is_ignored(
    settings: Settings, queues: MessageQueues, turn: ClaimedTurn
) -> None:
    # Not started: nobody takes the nudge away.
    beating = Beating(settings, queues, await queues.find(settings.queue))
    beating.keep(turn)

    beating.heartbeat.nudge(uuid4())

    assert beating.heartbeat._nudged == set()


async def test_a_settled_turn_is_not_stopped(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.keep(turn)
    await settle_one(database, settings, turn)
    kept.end()

    await beats_on(beating)

    assert beating.stops == []


async def test_a_renewal_that_meets_the_turns_own_settle_is_not_reported(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.keep(turn)
    kept.handler_ended()

    with capture_logs() as logs:
        # Committed, and the worker has not read the response.
        await settle_one(database, settings, turn)
        await beats_on(beating)

    assert [line for line in logs if line["event"] == "heartbeat.superseded"] == []
    assert beating.stops == []


async def test_a_lease_is_kept_while_its_settle_waits(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.keep(turn)
    kept.handler_ended()
    first, kept.ours_at = await lease_of(database), 0.0

    async def renewed() -> bool:
        return bool(await lease_of(database) > first)

    await until(renewed)
    # Otherwise the session's lock would no longer be extended.
    await until(lambda: kept.ours_at)


async def test_a_lock_on_the_whole_table_takes_the_evidence_away(
    settings: Settings, database: Database, beating: Beating
) -> None:
    """No worker can renew meanwhile, so a lease that runs out is not evidence of a lost worker."""
    await until(lambda: beating.heartbeat.evidence.judge(time.monotonic()))

    with psycopg.connect(settings.database_url) as other:
        other.execute("LOCK TABLE turns IN SHARE MODE")
        await until(lambda: not beating.heartbeat.evidence.judge(time.monotonic()))
        # A renewal that works again at once is not enough: it must have worked for a lease.
        await until(lambda: beating.heartbeat.evidence._unbroken_since is None)

    await until(lambda: beating.heartbeat.evidence.judge(time.monotonic()))


async def test_a_lease_that_ran_out_in_an_outage_is_renewed_after_it(
    database: Database, beating: Beating, turn: ClaimedTurn, superuser: Database
) -> None:
    beating.keep(turn)
    await beats_on(beating)
    await expire_leases(database)
    await superuser.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'turnstile-heartbeat' AND datname = current_database()",
        {},
    )

    async def alive() -> bool:
        return bool(await database.fetch("SELECT 1 FROM turns WHERE lease_until > now()", {}))

    await until(alive)
    assert beating.stops == []


async def test_a_heartbeat_without_postgres_asks_again_within_seconds(
    settings: Settings, queues: MessageQueues
) -> None:
    """It waits for a connection no longer than the pool tries to make one, however far apart its beats are."""
    away = {"database_url": at_port(settings.database_url, 1), "lease_seconds": 600.0, "heartbeat_seconds": 200.0}
    beating = Beating(settings.model_copy(update=away), queues, await queues.find(settings.queue))
    beating.heartbeat.start()

    await beats_on(beating, times=2)

    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
