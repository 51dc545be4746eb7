"""Lost turns are marked only by a process whose own renewals work, and each lost worker is logged once."""

import asyncio
import math
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.relay.relays import declaring
from tests.support.claims import submit_turns
from tests.support.factories import PROVEN, Proven, make_claim, make_terms, make_worker_record
from tests.support.metric_readings import reading, rising
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.lost_workers import LostWorkers
from turnstile.relay.renewal_evidence import Judgement, RenewalEvidence
from turnstile.statements.claim import claim
from turnstile.statements.lost_turns import mark_lost
from turnstile.statements.worker_registry import announce, withdraw

LEASE_SECONDS = 1.5
"""That of `settings`."""

LOST = "turnstile_workers_lost_total"
LIVING = make_worker_record("turns", "worker-a", lease_seconds=LEASE_SECONDS)


async def not_seen_for(database: Database, seconds: float) -> None:
    """`worker-a` was last seen so long ago."""
    await database.fetch("UPDATE workers SET seen_at = now() - make_interval(secs => %(s)s)", {"s": seconds})


async def lapse(database: Database) -> None:
    """Lets all leases expire, and marks no turn."""
    await database.fetch("UPDATE turns SET lease_until = now() - interval '1 s' WHERE status = 'RUNNING'", {})


async def marked(database: Database) -> int:
    """How many turns are marked as lost."""
    return len(await database.fetch("SELECT FROM turns WHERE status = 'RUNNING' AND send_at IS NOT NULL", {}))


@pytest.fixture
async def two_lapsed(database: Database, settings: Settings) -> None:
    """Two turns of `worker-a`, in sessions of their own."""
    for session in ("a", "b"):
        await submit_turns(database, settings, "one", session_id=session)
        await claim(database, make_terms(settings, "worker-a"), [make_claim(session)])
    await lapse(database)


@pytest.mark.usefixtures("two_lapsed")
async def test_lost_turns_are_marked_and_their_worker_is_logged_as_lost(database: Database, settings: Settings) -> None:
    with capture_logs() as logs:
        await LostWorkers(database, settings, Proven()).mark()

    assert await marked(database) == 2
    assert [(line["event"], line["log_level"], line["turns"]) for line in logs] == [("worker.lost", "warning", 2)]
    assert logs[0]["lost_worker"] == "worker-a"


@pytest.mark.usefixtures("two_lapsed")
async def test_lost_turns_are_marked_once(database: Database, settings: Settings) -> None:
    lost = LostWorkers(database, settings, Proven())
    await lost.mark()

    with capture_logs() as logs:
        await lost.mark()

    assert logs == []


@pytest.mark.usefixtures("two_lapsed")
async def test_a_living_worker_is_not_logged_as_lost(database: Database, settings: Settings) -> None:
    """It has given up these turns, because their handlers did not end in time."""
    await announce(database, LIVING)

    with capture_logs() as logs:
        await LostWorkers(database, settings, Proven()).mark()

    assert (await marked(database), logs) == (2, [])


async def test_a_worker_without_turns_that_vanishes_is_logged_once_by_whichever_relay_looks_first(
    database: Database, settings: Settings
) -> None:
    await announce(database, LIVING)
    relays = [LostWorkers(database, settings, Proven()) for _ in range(2)]

    with capture_logs() as logs:
        await not_seen_for(database, 1.9 * settings.lease_seconds)
        await relays[0].mark()
        assert logs == []
        await not_seen_for(database, 2.1 * settings.lease_seconds)
        await asyncio.gather(*(relay.mark() for relay in relays))
        await relays[1].mark()

    assert [(line["event"], line["log_level"], line["lost_worker"], line["turns"]) for line in logs] == [
        ("worker.lost", "warning", "worker-a", 0)
    ]


async def test_an_idle_worker_that_dies_is_counted(database: Database, settings: Settings) -> None:
    await announce(database, LIVING)
    lost = LostWorkers(database, settings, Proven())
    await not_seen_for(database, 3 * settings.lease_seconds)

    with rising(LOST, queue="turns"):
        await lost.mark()
        await lost.mark()


@pytest.mark.usefixtures("two_lapsed")
async def test_a_worker_that_dies_before_its_first_heartbeat_is_counted_without_a_takeover(
    database: Database, settings: Settings
) -> None:
    """As with a poison pill: it kills each worker that takes it over, within a second."""
    with rising(LOST, queue="turns"), rising("turnstile_takeovers_total", 0, queue="turns"):
        await LostWorkers(database, settings, Proven()).mark()


def test_lost_workers_are_0_before_they_are_1(database: Database, settings: Settings) -> None:
    """Prometheus sees no increase in a series that begins with its first event."""
    LostWorkers(database, declaring(settings, "unscathed"))

    assert reading(LOST, queue="unscathed") == 0


@pytest.mark.usefixtures("two_lapsed")
async def test_a_worker_with_turns_is_lost_with_their_leases_and_not_again_later(
    database: Database, settings: Settings
) -> None:
    await announce(database, LIVING)
    lost = LostWorkers(database, settings, Proven())

    with capture_logs() as logs:
        await not_seen_for(database, settings.lease_seconds)
        await lost.mark()
        await not_seen_for(database, 3 * settings.lease_seconds)
        await lost.mark()

    assert [(line["event"], line["turns"]) for line in logs] == [("worker.lost", 2)]


async def test_a_worker_that_comes_back_and_is_lost_again_is_logged_again(
    database: Database, settings: Settings
) -> None:
    lost = LostWorkers(database, settings, Proven())

    with capture_logs() as logs:
        for _ in range(2):
            await announce(database, LIVING)
            await lost.mark()
            await not_seen_for(database, 3 * settings.lease_seconds)
            await lost.mark()

    assert [line["event"] for line in logs] == ["worker.lost"] * 2


@pytest.mark.parametrize(("lease_seconds", "events"), [(100.0, []), (0.1, ["worker.lost"])])
async def test_a_worker_is_judged_by_its_own_lease(
    database: Database, settings: Settings, lease_seconds: float, events: list[str]
) -> None:
    """The relay's is another one: it is of another release, or of another service with other variables."""
    await announce(database, replace(LIVING, lease_seconds=lease_seconds))
    await not_seen_for(database, 1.0 if events else 60.0)

    with capture_logs() as logs:
        await LostWorkers(database, settings, Proven()).mark()

    assert [line["event"] for line in logs] == events


async def test_a_worker_that_stops_is_not_lost(database: Database, settings: Settings) -> None:
    await announce(database, LIVING)
    await withdraw(database, "worker-a")

    with capture_logs() as logs:
        await LostWorkers(database, settings, Proven()).mark()

    assert logs == []


@pytest.mark.usefixtures("two_lapsed")
@pytest.mark.parametrize(("seen_ago", "spared"), [(0.0, 1), (LEASE_SECONDS, 0)])
async def test_a_turn_that_its_worker_could_not_renew_is_spared_while_the_worker_says_so(
    database: Database, settings: Settings, seen_ago: float, spared: int
) -> None:
    [held, _] = await database.fetch("SELECT id FROM turns ORDER BY session_id", {})
    await announce(database, replace(LIVING, unrenewed=[held["id"]]))
    await not_seen_for(database, seen_ago)

    await LostWorkers(database, settings, Proven()).mark()

    assert await marked(database) == 2 - spared


@pytest.mark.usefixtures("two_lapsed")
@pytest.mark.parametrize(("proven_seconds", "turns"), [(59.0, 0), (60.0, 2)])
async def test_a_turn_is_lost_only_if_renewals_have_worked_for_the_lease_of_its_own_worker(
    database: Database, proven_seconds: float, turns: int
) -> None:
    """The relay's lease may be a shorter one."""
    await announce(database, replace(LIVING, lease_seconds=60.0))

    await mark_lost(database, PROVEN.by, proven_seconds, 100)

    assert await marked(database) == turns


@pytest.mark.usefixtures("two_lapsed")
@pytest.mark.parametrize(("earlier", "turns"), [(60.0, 0), (0.0, 1), (-60.0, 1)])
async def test_a_lease_is_judged_by_the_given_time_and_by_none_after_the_databases(
    database: Database, earlier: float, turns: int
) -> None:
    """That clock may have been set forward, or back."""
    await database.fetch("UPDATE turns SET lease_until = now() + interval '9 s' WHERE session_id = 'b'", {})
    [now] = await database.fetch("SELECT clock_timestamp() AS at", {})

    await mark_lost(database, now["at"] - timedelta(seconds=earlier), math.inf, 100)

    assert await marked(database) == turns


@pytest.mark.usefixtures("two_lapsed")
async def test_without_evidence_nothing_is_marked_and_one_log_line_says_so(
    database: Database, settings: Settings
) -> None:
    lost = LostWorkers(database, settings, RenewalEvidence(settings.lease_seconds, settings.heartbeat))

    with capture_logs() as logs:
        await lost.mark()
        await lost.mark()

    assert await marked(database) == 0
    assert [(line["event"], line["log_level"]) for line in logs] == [("takeover.forbidden", "warning")]


class SseEvent(RenewalEvidence):
    """Evidence as the test has it."""

    allows = False

    def judge(self, now: float) -> Judgement | None:
        return PROVEN if self.allows else None


@pytest.mark.usefixtures("two_lapsed")
async def test_each_time_without_evidence_has_a_log_line(database: Database, settings: Settings) -> None:
    evidence = SseEvent(1.0, 0.3)
    lost = LostWorkers(database, settings, evidence)

    with capture_logs() as logs:
        for allows in (False, True, False):
            evidence.allows = allows
            await database.fetch("UPDATE turns SET send_at = NULL", {})
            await lost.mark()

    assert [line["event"] for line in logs] == ["takeover.forbidden", "worker.lost", "takeover.forbidden"]


async def test_without_evidence_and_without_a_lost_turn_nothing_is_logged(
    database: Database, settings: Settings
) -> None:
    with capture_logs() as logs:
        await LostWorkers(database, settings, RenewalEvidence(1.0, 0.3)).mark()

    assert logs == []


@pytest.mark.usefixtures("two_lapsed")
async def test_a_relay_without_a_heartbeat_gathers_its_own_evidence(database: Database, settings: Settings) -> None:
    quick = settings.model_copy(update={"lease_seconds": 0.6, "heartbeat_seconds": 0.2})
    lost = LostWorkers(database, quick)
    await lost.mark()
    assert await marked(database) == 0

    async def has_marked() -> bool:
        await lost.mark()
        return await marked(database) == 2

    await until(has_marked)
