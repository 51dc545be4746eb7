"""What stands around the turns, as `turnstile doctor` looks at it: workers, guards of the tables, revision, clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.doctor.symptoms import MOST, NOBODY_TO_ANSWER, NOT_RELAYED, SCAN, UNDECLARED, look

REVISION: LiteralString = "SELECT version_num FROM alembic_version"

NOW: LiteralString = "SELECT clock_timestamp() AS now"

WORKERS: LiteralString = """
SELECT worker_id, queue, host, pid, busy, draining, seen_at,
       extract(epoch FROM clock_timestamp() - seen_at)::float8 AS silent_seconds
  FROM workers ORDER BY seen_at DESC LIMIT %(limit)s
"""

GUARDS_MISSING: LiteralString = """
SELECT g.name FROM unnest(%(constraints)s::text[]) g (name)
 WHERE NOT EXISTS (SELECT FROM pg_constraint c
                    WHERE c.conrelid = 'turns'::regclass AND c.conname = g.name AND c.convalidated)
UNION ALL
SELECT g.name FROM unnest(%(indexes)s::text[]) g (name)
 WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE i.indrelid = 'turns'::regclass AND c.relname = g.name AND i.indisvalid AND i.indisunique)
UNION ALL
SELECT g.name FROM unnest(%(triggers)s::text[]) g (name)
 WHERE NOT EXISTS (SELECT FROM pg_trigger r
                    WHERE r.tgrelid = 'turns'::regclass AND r.tgname = g.name AND r.tgenabled IN ('O', 'A'))
"""

WEBHOOKS_OVERDUE: LiteralString = """
SELECT count(*) AS many, min(w.due_at) AS since FROM (
    SELECT due_at FROM webhooks WHERE due_at < now() - make_interval(secs => %(overdue)s) ORDER BY due_at LIMIT %(limit)s) w
"""

CONSTRAINTS = tuple(
    f"turns_{name}"
    for name in (
        "finished_when_ended", "kind_known", "lease_while_running", "pending_has_send_at", "pkey", "running_has_seq",
        "status_known",
    )
)  # fmt: skip
UNIQUE_INDEXES = ("turns_running", "turns_session_seq")
TRIGGERS = ("turns_legal_birth", "turns_legal_transition", "turns_owe_webhook", "turns_owe_webhook_at_birth")
"""Those of the first migration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A row of the registry. `silent_seconds` since its last heartbeat, by the database's clock."""

    worker_id: str
    queue: str
    host: str
    pid: int
    busy: int
    draining: bool
    seen_at: datetime
    silent_seconds: float


async def read_revision(database: Database) -> str | None:
    """The revision of the tables; None where there are none."""
    try:
        rows = await look(database, REVISION, {})
    except psycopg.errors.UndefinedTable:
        return None
    return rows[0]["version_num"] if rows else None


async def read_clock(database: Database) -> datetime:
    """The database's clock, by which leases run."""
    moment: datetime = (await look(database, NOW, {}))[0]["now"]
    return moment


async def read_workers(database: Database) -> list[SeenWorker]:
    """The registry, who was seen last first; at most MOST."""
    return [SeenWorker(**row) for row in await look(database, WORKERS, {"limit": MOST})]


async def find_missing_guards(database: Database) -> list[str]:
    """The constraints, unique indexes and triggers of the status table that are gone, invalid or switched off."""
    wanted = {"constraints": list(CONSTRAINTS), "indexes": list(UNIQUE_INDEXES), "triggers": list(TRIGGERS)}
    return [row["name"] for row in await look(database, GUARDS_MISSING, wanted)]


async def find_unanswered_queues(
    database: Database, queues: Sequence[str], *, overdue_seconds: float, silent_seconds: float
) -> dict[str, datetime]:
    """The queues with turns that are due and no worker that was seen lately; since when one of them is due."""
    terms = {"queues": list(queues), "overdue": overdue_seconds, "silent": silent_seconds}
    return {row["queue"]: row["since"] for row in await look(database, NOBODY_TO_ANSWER, terms)}


async def find_undeclared_queues(database: Database, declared: Sequence[str]) -> list[dict[str, Any]]:
    """Queues of open turns that are not among the `declared`: `queue`, `turns`, `since`."""
    return list(await look(database, UNDECLARED, {"queues": list(declared), "limit": MOST}))


async def find_unrelayed_queues(database: Database, overdue_seconds: float) -> list[dict[str, Any]]:
    """Queues whose messages are due for so long that no relay can be sending them: `queue`, `turns` (at most SCAN), `since`."""
    return list(await look(database, NOT_RELAYED, {"overdue": overdue_seconds, "scan": SCAN, "limit": MOST}))


async def find_overdue_webhooks(database: Database, overdue_seconds: float) -> tuple[int, datetime | None]:
    """How many completion webhooks are due for so long that nobody can be delivering them (at most MOST), and since when."""
    row = (await look(database, WEBHOOKS_OVERDUE, {"overdue": overdue_seconds, "limit": MOST}))[0]
    return row["many"], row["since"]
