"""The figures of ended turns: equal to those made by hand, and read from a part of the table only."""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from tests.statements.plans.touched import execute, prepare
from tests.support.tampered_turns import tamper
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.ops.stats.read_stats import SHARES, Percentiles, StatsTooBroadError, make_statement, read_stats

HOUR = 3600.0

# Five turns were started and have ended within the hour, one was canceled before its start. One ended before the hour, one runs,
# one waits, and one is of another queue.
SEEDED: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, attempt, error_class, send_at, lease_until, expires_at,
                   trace_id, span_id, queued_at, first_started_at, finished_at)
SELECT gen_random_uuid(), v.tenant, 's' || v.n, 1, v.queue, v.status, v.attempt, v.error,
       CASE WHEN v.status = 'PENDING' THEN now() END, CASE WHEN v.status = 'RUNNING' THEN now() END, now(), md5(v.n::text), 's',
       v.ended - make_interval(secs => coalesce(v.runs, 0)) - make_interval(secs => coalesce(v.waits, 0)),
       CASE WHEN v.runs IS NOT NULL THEN v.ended - make_interval(secs => v.runs) END,
       CASE WHEN v.status IN ('SUCCEEDED', 'FAILED', 'CANCELED') THEN v.ended END
  FROM (VALUES (1, 't', 'turns', 'SUCCEEDED', 1, NULL, 1, 10, now() - interval '1 min'),
               (2, 't', 'turns', 'SUCCEEDED', 1, NULL, 2, 20, now() - interval '1 min'),
               (3, 't', 'turns', 'SUCCEEDED', 2, NULL, 3, 30, now() - interval '59 min'),
               (4, 't', 'turns', 'FAILED', 5, 'Boom', 4, 40, now() - interval '1 min'),
               (5, 'u', 'turns', 'FAILED', 1, NULL, 5, 50, now() - interval '1 min'),
               (6, 't', 'turns', 'CANCELED', 0, NULL, 70, NULL, now() - interval '1 min'),
               (7, 't', 'turns', 'FAILED', 9, 'Old', 600, 600, now() - interval '61 min'),
               (8, 't', 'turns', 'RUNNING', 1, NULL, 600, 600, now()),
               (9, 't', 'turns', 'PENDING', 0, NULL, 600, NULL, now()),
               (10, 't', 'bulk', 'SUCCEEDED', 1, NULL, 100, 100, now() - interval '1 min')
       ) v (n, tenant, queue, status, attempt, error, waits, runs, ended)
"""


# 10,000 turns: one has ended every minute, in the order of their rows, the last one just now.
CROWD: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, attempt, expires_at, trace_id, span_id, queued_at,
                   first_started_at, finished_at)
SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'SUCCEEDED', 1, now(), md5(g::text), 's', g.ended - interval '3 s',
       g.ended - interval '1 s', g.ended
  FROM (SELECT n, now() - make_interval(mins => 9999 - n) AS ended FROM generate_series(%(first)s::int, 9999) n) g (n, ended)
"""
A_DAY = 1440


def seconds(p50: float, p95: float, p99: float) -> Percentiles:
    return Percentiles(p50=p50, p95=p95, p99=p99)


@pytest.fixture
async def seeded(settings: Settings) -> None:
    await tamper(settings, SEEDED)


@pytest.mark.usefixtures("seeded")
async def test_the_figures_are_those_made_by_hand(database: Database) -> None:
    found = await read_stats(database, since_seconds=HOUR, queue="turns")

    assert (found.ended, found.ended_per_second) == (6, 6 / HOUR)
    assert list(found.by_status.items()) == [("SUCCEEDED", 3), ("FAILED", 2), ("CANCELED", 1)]
    assert found.by_error_class == {"Boom": 1, "unknown": 1}
    # The 95th percentile of 1, 2, 3, 4, 5 is 0.8 of the way from 4 to 5, and the 99th 0.96 of it.
    assert found.waiting_seconds == seconds(3.0, 4.8, 4.96)
    assert found.running_seconds == seconds(30.0, 48.0, 49.6)
    assert found.attempts_per_turn == 2.0


@pytest.mark.usefixtures("seeded")
async def test_the_figures_of_a_tenant_and_of_all_queues(database: Database) -> None:
    of_one = await read_stats(database, since_seconds=HOUR, tenant_id="u")
    of_all = await read_stats(database, since_seconds=HOUR)
    longer = await read_stats(database, since_seconds=2 * HOUR, queue="turns")

    assert (of_one.ended, of_one.running_seconds) == (1, seconds(50.0, 50.0, 50.0))
    assert (of_all.ended, longer.ended) == (7, 7)
    assert longer.by_error_class == {"Boom": 1, "Old": 1, "unknown": 1}


async def test_without_an_ended_turn_there_are_no_durations(database: Database) -> None:
    found = await read_stats(database, since_seconds=HOUR)

    assert (found.ended, found.by_status, found.by_error_class) == (0, {}, {})
    assert (found.waiting_seconds, found.running_seconds, found.attempts_per_turn) == (None, None, None)


async def test_too_many_ended_turns_are_refused_with_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.stats.read_stats.make_statement", lambda *_: "SELECT pg_sleep(60)")

    async with Database(settings.database, "test", size=1, statement_timeout_seconds=0.2) as impatient:
        with pytest.raises(StatsTooBroadError, match="give a shorter --since"):
            await read_stats(impatient, since_seconds=HOUR)


# --- what it reads


STATEMENTS = {"of_all": make_statement(frozenset()), "of_one": make_statement(frozenset({"tenant_id"}))}


@pytest.fixture
def crowded(settings: Settings) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(conninfo(settings.database, "test"), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(CROWD, {"first": 0})
        # As autovacuum does it: the index knows the last rows. Without statistics the planner takes each tenant for a small one.
        connection.execute("VACUUM turns")
        for name, statement in STATEMENTS.items():
            prepare(connection, name, statement)
        yield connection


def pages_read(connection: psycopg.Connection[Any], tenant: str | None) -> int:
    name = "of_all" if tenant is None else "of_one"
    parameters = {"since": HOUR, "tenant_id": tenant, "shares": list(SHARES)}
    return execute(connection, name, STATEMENTS[name], parameters).pages


@pytest.mark.parametrize("tenant", [None, "t"])
def test_only_the_pages_of_what_ended_lately_are_read(crowded: psycopg.Connection[Any], tenant: str | None) -> None:
    row = crowded.execute("SELECT pg_relation_size('turns') / 8192").fetchone()
    assert row is not None
    [whole] = row
    fresh = pages_read(crowded, tenant)
    # The retention deletes the oldest turns, and those of the last day take their room, at the front of the table.
    crowded.execute(
        "DELETE FROM turns WHERE finished_at < now() - interval '5 days' OR finished_at > now() - interval '1 day'"
    )
    crowded.execute("VACUUM turns")
    crowded.execute(CROWD, {"first": 10_000 - A_DAY})
    crowded.execute("VACUUM ANALYZE turns")
    later = pages_read(crowded, tenant)

    assert whole > 300
    assert max(fresh, later) < whole / 4
