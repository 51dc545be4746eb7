"""Archiving: moves the ended turns of resting sessions out of the status table, with their messages, attempts, values, webhooks.

A session is moved as a whole or not at all: its history, its order, its version and its joins are read from `turns`, and half a
history would be wrong. The session's row stays, with `last_seq`: the next turn continues the numbering, with an empty history.
Only sessions that are named after a child or a compensation are deleted with their turn.

A run walks the sessions by their key, (`tenant_id`, `session_id`), and moves those of one batch in one statement: it deletes and
archives the same rows in the same commit. So a run may be killed at any point, and two may run at once. The next run starts from
the first session again. It finds fewer, and takes those that another transaction had locked before.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.archive.bounded_statement import fetch_bounded
from turnstile.archive.leaving_turns import ARCHIVE_GONE, DELETE_ROWS, IS_NEEDED
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key

LONGEST_PAUSE_SECONDS = 5.0

CUTOFF: LiteralString = "SELECT clock_timestamp() - make_interval(secs => %(older_than)s) AS cutoff"

# Nothing changes a turn that is SUCCEEDED or CANCELED. A redrive reopens a FAILED one.
STAYS: LiteralString = f"""
    -- It is open, or ended or was given up since the cut-off, or may be redriven.
    t.status IN ('PENDING', 'RUNNING') OR greatest(t.finished_at, t.dropped_at) >= %(cutoff)s
    OR (t.status = 'FAILED' AND t.dropped_at IS NULL AND NOT %(failed)s)
    OR {IS_NEEDED}
"""
"""Whether turn `t` must stay in the table, and its session with it."""

_PAGE: LiteralString = """
page AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id FROM sessions s WHERE (s.tenant_id, s.session_id) > (%(tenant)s, %(session)s)
     ORDER BY s.tenant_id, s.session_id LIMIT %(batch)s
), last AS (SELECT p.tenant_id, p.session_id FROM page p ORDER BY p.tenant_id DESC, p.session_id DESC LIMIT 1)
"""

# For a session that has no turns left, or is in use, only its row is read.
_RESTING: LiteralString = f"""
    SELECT p.tenant_id, p.session_id, its.turns
      FROM page p JOIN sessions s ON {by_key("s.tenant_id", "p.tenant_id")} AND s.session_id = p.session_id
     CROSS JOIN LATERAL (
           SELECT count(*) AS turns FROM turns t WHERE t.tenant_id = s.tenant_id AND t.session_id = s.session_id
           HAVING NOT bool_or({STAYS})) its
     WHERE s.updated_at < %(cutoff)s AND s.halted_by IS NULL
"""

STEP_OVER: LiteralString = (
    f"WITH {_PAGE} SELECT tenant_id, session_id, 0 AS sessions, 0 AS turns, 1 AS skipped FROM last"
)

SURVEY: LiteralString = f"""
WITH {_PAGE}, resting AS MATERIALIZED ({_RESTING})
SELECT tenant_id, session_id, (SELECT count(*) FROM resting) AS sessions,
       (SELECT coalesce(sum(turns), 0)::bigint FROM resting) AS turns, 0 AS skipped
  FROM last
"""

# Lock order: sessions, then turns. While a session is locked, no turn of it gets a place or is redriven. A submit or a redrive
# that committed after this statement's snapshot has set `updated_at`, and Postgres checks the newest version of a row that it
# locks. Any other change is to a turn that is open or owed something in the snapshot, so its session stays.
MOVE: LiteralString = f"""
WITH {_PAGE}, resting AS MATERIALIZED (
    {_RESTING} ORDER BY p.tenant_id, p.session_id FOR NO KEY UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM turns t USING resting r
     WHERE {by_key("t.tenant_id", "r.tenant_id")} AND t.session_id = r.session_id RETURNING t.*
), archived AS ({ARCHIVE_GONE}
), {DELETE_ROWS}, sessions_gone AS (
    DELETE FROM sessions s USING gone g
     WHERE {by_key("s.tenant_id", "g.tenant_id")} AND s.session_id = g.session_id
       AND g.parent_turn_id IS NOT NULL AND g.session_id IN ('child:' || g.id, 'compensation:' || g.id)
)
SELECT tenant_id, session_id, (SELECT count(DISTINCT (g.tenant_id, g.session_id)) FROM gone g) AS sessions,
       (SELECT count(*) FROM gone) AS turns, 0 AS skipped
  FROM last
"""


@dataclass(frozen=True, slots=True)
class Archived:
    """Counts of what was moved; in a dry run, of what would be."""

    sessions: int = 0
    turns: int = 0
    skipped: int = 0
    """Sessions that took too long, or whose turns another transaction had locked. None of their turns was moved."""

    def __add__(self, other: "Archived") -> "Archived":
        return Archived(self.sessions + other.sessions, self.turns + other.turns, self.skipped + other.skipped)


async def read_cutoff(database: Database, older_than_seconds: float) -> datetime:
    """The moment `older_than_seconds` ago by the database's clock, which also set the times of the turns."""
    cutoff: datetime = (await database.fetch(CUTOFF, {"older_than": float(older_than_seconds)}))[0]["cutoff"]
    return cutoff


async def archive_sessions(
    database: Database,
    cutoff: datetime,
    *,
    failed: bool = False,
    batch: int = 100,
    pause_seconds: float | None = None,
    dry_run: bool = False,
) -> AsyncIterator[Archived]:
    """Moves the turns of all sessions that have been at rest since `cutoff`, a moment of the database's clock. Yields the
    counts of each statement.

    `failed` takes FAILED turns as well, which can't be redriven afterwards. A statement looks at `batch` sessions, and at fewer
    after a statement that took too long. A session that takes too long alone is skipped, so that it does not block the sessions
    behind it. Between two statements it sleeps for `pause_seconds`, by default for as long as the last one took, which leaves
    half of the disk's time to the workers. `dry_run` only counts, and changes nothing.

    Raises DatabaseUnavailableError.
    """
    statement = SURVEY if dry_run else MOVE
    tenant_id, session_id, size = "", "", batch
    while True:
        began = time.monotonic()
        terms = {"cutoff": cutoff, "failed": failed, "tenant": tenant_id, "session": session_id, "batch": size}
        rows = await fetch_bounded(database, statement, terms)
        if rows is None and size == 1:
            rows = await database.fetch(STEP_OVER, terms)
        match rows:
            case None:
                size //= 2
            case []:
                return
            case [row, *_]:
                yield Archived(row["sessions"], row["turns"], row["skipped"])
                tenant_id, session_id, size = row["tenant_id"], row["session_id"], min(2 * size, batch)
        took = min(time.monotonic() - began, LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(took if pause_seconds is None else pause_seconds)
