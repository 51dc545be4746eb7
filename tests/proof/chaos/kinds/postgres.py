"""Faults of Postgres and of the way to it."""

import asyncio
from contextlib import closing
from typing import LiteralString

import psycopg

from tests.proof.chaos.kinds.scene import EVERYBODY, Kind, Scene, Strike
from tests.proof.chaos.stage import ROLE
from tests.proof.chaos.terms import LEASE_SECONDS

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE usename = %s AND datname = %s AND random() < %s
"""


SIT_ON_TURNS: LiteralString = """
SELECT id FROM turns WHERE status IN ('PENDING', 'RUNNING') ORDER BY random() LIMIT %s FOR UPDATE SKIP LOCKED
"""
SIT_ON_SESSIONS: LiteralString = """
SELECT session_id FROM sessions s
 WHERE EXISTS (SELECT FROM turns t
                WHERE t.tenant_id = s.tenant_id AND t.session_id = s.session_id AND t.status IN ('PENDING', 'RUNNING'))
 ORDER BY random() LIMIT %s FOR UPDATE SKIP LOCKED
"""


async def restart(scene: Scene) -> str | None:
    await asyncio.to_thread(scene.stage.stack.postgres.restart, immediate=True)
    return "postgres"


async def terminate_backends(scene: Scene) -> str | None:
    """Some connections are ended by the server, in the middle of whatever they do."""
    return f"{await asyncio.to_thread(_terminate, scene, 0.7)} back ends"


async def exhaust(scene: Scene) -> str | None:
    """The server takes no more connections, and some that there were are gone."""
    await asyncio.to_thread(_limit, scene, 3)
    try:
        ended = await asyncio.to_thread(_terminate, scene, 0.6)
        await scene.last(1, 3)
    finally:
        await asyncio.to_thread(_limit, scene, -1)
    return f"{ended} back ends"


async def lose_answers(scene: Scene) -> str | None:
    """Statements are committed and the connection breaks before the answer is through."""
    count = scene.rng.randint(2, 8)
    return await scene.suffer("postgres", EVERYBODY, "answer_lost", 0.5, 2, probability=0.3, count=count)


def toxic(name: str, least: float, most: float, **parameters: float) -> Strike:
    return lambda scene: scene.suffer("postgres", EVERYBODY, name, least, most, **parameters)


async def cut_off_worker(scene: Scene) -> str | None:
    """One worker loses Postgres and keeps Redis, for longer than its leases last."""
    part = scene.some("worker")
    if part is None:
        return None
    how = scene.rng.choice(["cut", "half_open"])
    return await scene.suffer("postgres", part.name, how, LEASE_SECONDS + 0.5, 3 * LEASE_SECONDS)


async def sit_on_rows(scene: Scene) -> str | None:
    """Somebody's transaction has some rows that are at work, and he is at lunch."""
    what, rows = scene.rng.choice([("turns", SIT_ON_TURNS), ("sessions", SIT_ON_SESSIONS)])
    with closing(await asyncio.to_thread(psycopg.connect, scene.stage.admin_url)) as somebody:
        held = await asyncio.to_thread(_count, somebody, rows, scene.rng.randint(1, 8))
        if held:
            await scene.last(0.5, 4 * LEASE_SECONDS)
    return f"{held} {what}" if held else None


async def lock_table(scene: Scene) -> str | None:
    """Nobody can write to the status table for longer than a lease, as while an index is built. No lease may be lost by it."""
    with closing(await asyncio.to_thread(psycopg.connect, scene.stage.admin_url)) as somebody:
        await asyncio.to_thread(somebody.execute, "LOCK TABLE turns IN SHARE MODE")
        await scene.last(1.2 * LEASE_SECONDS, 2.5 * LEASE_SECONDS)
    return "turns"


def _count(connection: psycopg.Connection, rows: LiteralString, most: int) -> int:
    return len(connection.execute(rows, (most,)).fetchall())


def _terminate(scene: Scene, share: float) -> int:
    with psycopg.connect(scene.stage.admin_url, autocommit=True) as connection:
        row = connection.execute(TERMINATE, (ROLE, scene.stage.database, share)).fetchone()
        return int(row[0]) if row else 0


def _limit(scene: Scene, connections: int) -> None:
    with psycopg.connect(scene.stage.admin_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {connections}")  # type: ignore[call-overload]


KINDS = (
    Kind("postgres-restarted", restart, group="postgres", shared=False),
    Kind("postgres-backends-terminated", terminate_backends, group="postgres"),
    Kind("postgres-connections-exhausted", exhaust, group="postgres", shared=False),
    Kind("postgres-unreachable", toxic("cut", LEASE_SECONDS + 0.5, 2.5 * LEASE_SECONDS), group="postgres"),
    Kind("postgres-half-open", toxic("half_open", 1, 2.5 * LEASE_SECONDS), group="postgres"),
    Kind("postgres-reset", toxic("reset", 0.05, 0.5), group="postgres"),
    Kind("postgres-stalled", toxic("stall", 0.5, 2.5), group="postgres"),
    Kind("postgres-slow", toxic("latency", 1, 4, delay=0.05, jitter=0.04), group="postgres"),
    Kind("postgres-rows-held", sit_on_rows, group="held"),
    Kind("postgres-table-locked", lock_table, group="postgres"),
    Kind("commit-answer-lost", lose_answers, group="postgres"),
    Kind("worker-cut-off-from-postgres", cut_off_worker, group="postgres"),
)
