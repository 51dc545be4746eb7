"""Faults of Postgres and of the way to it."""

import asyncio
from contextlib import closing
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL

from tests.proof.chaos.kinds.scene import ALL, Kind, Scene, cut_off_worker, lose_responses, toxic
from tests.proof.chaos.scaled_settings import LEASE_SECONDS
from tests.proof.chaos.servers import COMMITS_HANG, ROLE

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE usename = %s AND datname = %s AND random() < %s
"""


HANGING = "nobody"
"""A standby that no server has."""

LOCK_TURNS: LiteralString = """
SELECT id FROM turns WHERE status IN ('PENDING', 'RUNNING') ORDER BY random() LIMIT %s FOR UPDATE SKIP LOCKED
"""
BACKFILL: LiteralString = "UPDATE turns SET metadata = metadata WHERE status IN ('PENDING', 'RUNNING')"
LOCK_SESSIONS: LiteralString = """
SELECT session_id FROM sessions s
 WHERE EXISTS (SELECT FROM turns t
                WHERE t.tenant_id = s.tenant_id AND t.session_id = s.session_id AND t.status IN ('PENDING', 'RUNNING'))
 ORDER BY random() LIMIT %s FOR UPDATE SKIP LOCKED
"""


async def restart(scene: Scene) -> str | None:
    await asyncio.to_thread(scene.servers.stack.postgres.restart, immediate=True)
    return "postgres"


async def terminate_backends(scene: Scene) -> str | None:
    """Some connections are ended by the server, in the middle of whatever they do."""
    return f"{await asyncio.to_thread(_terminate, scene, 0.7)} back ends"


async def exhaust(scene: Scene) -> str | None:
    """The server accepts no further connection, and some of the open ones are gone."""
    await asyncio.to_thread(_limit, scene, 3)
    try:
        ended = await asyncio.to_thread(_terminate, scene, 0.6)
        await scene.last(1, 3)
    finally:
        await asyncio.to_thread(_limit, scene, -1)
    return f"{ended} back ends"


def _connect(scene: Scene) -> "psycopg.Connection[Any]":
    return psycopg.connect(scene.servers.admin_url)


async def lock_rows(scene: Scene) -> str | None:
    """A transaction that was left open has locked rows of open turns, or their sessions."""
    what, rows = scene.rng.choice([("turns", LOCK_TURNS), ("sessions", LOCK_SESSIONS)])
    with closing(await asyncio.to_thread(_connect, scene)) as other:
        locked = await asyncio.to_thread(_count, other, rows, scene.rng.randint(1, 8))
        if locked:
            await scene.last(0.5, 4 * LEASE_SECONDS)
    return f"{locked} {what}" if locked else None


async def lock_table(scene: Scene) -> str | None:
    """No process can write to the status table for longer than a lease, as while an index is built. No lease may be lost."""
    with closing(await asyncio.to_thread(_connect, scene)) as other:
        await asyncio.to_thread(other.execute, "LOCK TABLE turns IN SHARE MODE")
        # Past two leases the session locks have run out, too, and some renewals pause after their second time-out.
        await scene.last(1.2 * LEASE_SECONDS, 4.0 * LEASE_SECONDS)
    return "turns"


async def lock_all_rows(scene: Scene) -> str | None:
    """A backfill has updated all rows and stays open. Their workers can't renew a lease, and live."""
    with closing(await asyncio.to_thread(_connect, scene)) as other:
        try:
            await asyncio.to_thread(other.execute, BACKFILL)
        except psycopg.errors.DeadlockDetected:
            return None
        await scene.last(1.2 * LEASE_SECONDS, 2.5 * LEASE_SECONDS)
        await asyncio.to_thread(other.commit)
    return "turns"


async def hang_commits(scene: Scene) -> str | None:
    """Every COMMIT waits for a standby that is gone, and what changes nothing goes on. Connections may break meanwhile."""
    broken = None
    await asyncio.to_thread(wait_for_standby, scene.servers.admin_url, HANGING)
    try:
        await scene.last(0.5, 2.0 * LEASE_SECONDS)
        if scene.rng.random() < 0.5:
            broken = await scene.suffer("postgres", ALL, "reset", 0.05, 0.5)
        # Long enough to connect and to ask again.
        await scene.last(LEASE_SECONDS, 3.0 * LEASE_SECONDS)
    finally:
        await asyncio.to_thread(wait_for_standby, scene.servers.admin_url, "")
    return f"connections, {broken}" if broken else "all"


def wait_for_standby(url: str, name: str) -> None:
    """Lets each COMMIT of the server at `url` wait for the standby of this name; for none if it is empty."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(name))
        connection.execute("SELECT pg_reload_conf()")


def _count(connection: psycopg.Connection, rows: LiteralString, most: int) -> int:
    return len(connection.execute(rows, (most,)).fetchall())


def _terminate(scene: Scene, share: float) -> int:
    with psycopg.connect(scene.servers.admin_url, autocommit=True) as connection:
        row = connection.execute(TERMINATE, (ROLE, scene.servers.database, share)).fetchone()
        return int(row[0]) if row else 0


def _limit(scene: Scene, connections: int) -> None:
    with psycopg.connect(scene.servers.admin_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {connections}")


KINDS = (
    Kind("postgres-restarted", restart, group="postgres", shared=False),
    Kind("postgres-backends-terminated", terminate_backends, group="postgres"),
    Kind("postgres-connections-exhausted", exhaust, group="postgres", shared=False),
    Kind("postgres-unreachable", toxic("postgres", "cut", LEASE_SECONDS + 0.5, 2.5 * LEASE_SECONDS), group="postgres"),
    Kind("postgres-half-open", toxic("postgres", "half_open", 1, 2.5 * LEASE_SECONDS), group="postgres"),
    Kind("postgres-reset", toxic("postgres", "reset", 0.05, 0.5), group="postgres"),
    Kind("postgres-stalled", toxic("postgres", "stall", 0.5, 2.5), group="postgres"),
    Kind("postgres-slow", toxic("postgres", "latency", 1, 4, delay=0.05, jitter=0.04), group="postgres"),
    Kind("postgres-rows-locked", lock_rows, group="rows"),
    Kind("postgres-table-locked", lock_table, group="postgres"),
    Kind("postgres-rows-backfilled", lock_all_rows, group="postgres"),
    Kind(COMMITS_HANG, hang_commits, group="postgres"),
    Kind("commit-answer-lost", lose_responses("postgres"), group="postgres"),
    Kind(
        "worker-cut-off-from-postgres",
        cut_off_worker("postgres", LEASE_SECONDS + 0.5, 3 * LEASE_SECONDS),
        group="postgres",
    ),
)
