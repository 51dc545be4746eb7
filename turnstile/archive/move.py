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

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.errors import DatabaseUnavailableError

STATEMENT_TIMEOUT_SECONDS = 4
"""Shorter than a submit waits for a lock: a submit to a session that is being moved waits, and is not refused."""
LOCK_TIMEOUT_SECONDS = 1
LONGEST_PAUSE_SECONDS = 5.0

DEAD_LETTER_DAYS = 15
"""One day more than SQS keeps a message: no dead letter outlives the row with its turn's outcome."""

_BROKEN_OFF = frozenset({"57014", "25P04", "55P03", "40P01"})
"""SQLSTATEs of the timeouts and of a deadlock: the statement changed nothing."""

CUTOFF: LiteralString = "SELECT clock_timestamp() - make_interval(secs => %(older_than)s) AS cutoff"

# Nothing changes a turn that is SUCCEEDED or CANCELED. A redrive reopens a FAILED one.
STAYS: LiteralString = f"""
    -- It is open, or ended or was given up since the cut-off, or may be redriven.
    t.status IN ('PENDING', 'RUNNING') OR greatest(t.finished_at, t.dropped_at) >= %(cutoff)s
    OR (t.status = 'FAILED' AND t.dropped_at IS NULL AND NOT %(failed)s)
    -- Its dead letter is owed, or may be on the queue, where the sweep and AWS's own redrive find it.
    OR t.send_at IS NOT NULL
    OR ((t.generation > 1 OR t.dead_lettered_at IS NOT NULL)
        AND greatest(t.finished_at, t.dead_lettered_at) > now() - interval '{DEAD_LETTER_DAYS} days')
    -- Its webhook is not delivered.
    OR EXISTS (SELECT FROM webhooks w WHERE w.turn_id = t.id AND w.due_at IS NOT NULL OFFSET 0)
    -- Its parent is open, or may be redriven: it then joins this turn, or starts it again.
    OR EXISTS (SELECT FROM turns p WHERE p.id = t.parent_turn_id AND {off_index("p.tenant_id")} = t.tenant_id
                AND {off_index("p.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0)
    -- It was redriven and answered, and its compensation may be redriven (IS_OVERTAKEN).
    OR (t.status <> 'FAILED' AND EXISTS (
        SELECT FROM turns c WHERE c.parent_turn_id = t.id AND c.kind = 'compensation' AND {off_index("c.tenant_id")} = t.tenant_id
           AND {off_index("c.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0))
    -- It replaces a child of another session, which may be redriven (HAS_SUCCESSOR).
    OR (t.child_key IS NOT NULL AND EXISTS (
        SELECT FROM turns o WHERE o.parent_turn_id = t.parent_turn_id AND o.child_key = t.child_key
           AND {off_index("o.tenant_id")} = t.tenant_id AND {off_index("o.session_id")} <> t.session_id
           AND o.created_at < t.created_at
           AND {off_index("o.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0))
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

# Lock order: sessions, then turns. While a session is locked, no turn of it is submitted or redriven. A submit or a redrive that
# committed after this statement's snapshot has set `updated_at`, and Postgres checks the newest version of a row that it locks.
# Any other change is to a turn that is open or owed something in the snapshot, so its session stays.
MOVE: LiteralString = f"""
WITH {_PAGE}, resting AS MATERIALIZED (
    {_RESTING} ORDER BY p.tenant_id, p.session_id FOR NO KEY UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM turns t USING resting r
     WHERE {by_key("t.tenant_id", "r.tenant_id")} AND t.session_id = r.session_id RETURNING t.*
), archived AS (
    -- Without the NULL columns of the row, which are half of it. JSON of users keeps its own nulls.
    INSERT INTO archived_turns (id, tenant_id, session_id, trace_id, parent_turn_id, ended_at, turn, messages, attempts,
                                recorded_values, webhooks)
    SELECT g.id, g.tenant_id, g.session_id, g.trace_id, g.parent_turn_id, g.finished_at,
           (SELECT json_object_agg(key, value) FROM json_each(to_json(g)) WHERE json_typeof(value) <> 'null'),
           (SELECT coalesce(json_agg(m ORDER BY m.ordinal), '[]') FROM messages m WHERE m.turn_id = g.id),
           (SELECT coalesce(json_agg(json_strip_nulls(to_json(a)) ORDER BY a.fence), '[]')
              FROM turn_attempts a WHERE a.turn_id = g.id),
           (SELECT coalesce(json_agg(v ORDER BY v.created_at, v.key), '[]') FROM turn_values v WHERE v.turn_id = g.id),
           (SELECT coalesce(json_agg(w ORDER BY w.generation), '[]') FROM webhooks w WHERE w.turn_id = g.id)
      FROM gone g
), messages_gone AS (
    DELETE FROM messages m USING gone g WHERE {by_key("m.turn_id", "g.id")}
), attempts_gone AS (
    DELETE FROM turn_attempts a USING gone g WHERE {by_key("a.turn_id", "g.id")}
), values_gone AS (
    DELETE FROM turn_values v USING gone g WHERE {by_key("v.turn_id", "g.id")}
), webhooks_gone AS (
    DELETE FROM webhooks w USING gone g WHERE {by_key("w.turn_id", "g.id")}
), sessions_gone AS (
    DELETE FROM sessions s USING gone g
     WHERE {by_key("s.tenant_id", "g.tenant_id")} AND s.session_id = g.session_id
       AND g.parent_turn_id IS NOT NULL AND g.session_id IN ('child:' || g.id, 'compensation:' || g.id)
)
SELECT tenant_id, session_id, (SELECT count(DISTINCT (g.tenant_id, g.session_id)) FROM gone g) AS sessions,
       (SELECT count(*) FROM gone) AS turns, 0 AS skipped
  FROM last
"""

BOUNDS: LiteralString = f"""
SELECT set_config('statement_timeout', '{STATEMENT_TIMEOUT_SECONDS}s', true),
       set_config('lock_timeout', '{LOCK_TIMEOUT_SECONDS}s', true)
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
        rows = await _run(database, statement, terms)
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


async def _run(database: Database, statement: LiteralString, terms: Parameters) -> list[DictRow] | None:
    """None if the statement took too long or met a lock; it then changed nothing."""
    try:
        _, rows = await database.fetch_pipelined([(BOUNDS, {}), (statement, terms)])
    except DatabaseUnavailableError as error:
        if getattr(error.__cause__, "sqlstate", None) in _BROKEN_OFF:
            return None
        raise
    return rows
