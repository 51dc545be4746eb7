"""Deletes the turns of a queue that ended long ago, oldest first, a batch in one statement.

A turn goes with its messages, attempts, values, webhooks and traces, or it goes into the archive with them. It stays for as long
as something that may still happen needs it (`archive.leaving_turns.IS_NEEDED`). A history loses its beginning and never its
middle: an answered turn goes only if no older answered turn of its session stays. A session goes with its last turn. If its row
can't be locked, its last turns stay until the next look: so each turn has a session, and each session a turn.

The row of the queue in `retention` belongs to one statement at a time, however many relays run, and says when the next one may
begin. So the fleet's pace does not depend on their number. A relay that dies leaves nothing behind.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import LiteralString

from turnstile.archive.bounded_statement import fetch_bounded
from turnstile.archive.leaving_turns import ARCHIVE_GONE, DELETE_ROWS, IS_NEEDED
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index

BATCH = 500
"""Turns that one statement looks at."""
PAUSE_SECONDS = 0.5
"""Between two statements of a queue, in the whole fleet."""
REST_SECONDS = 60.0
"""After the youngest turn that is old enough: then a queue is looked at from its oldest turn again."""

DECLARE: LiteralString = """
INSERT INTO retention (queue) SELECT q.name FROM unnest(%(queues)s::text[]) q (name)
 WHERE NOT EXISTS (SELECT FROM retention r WHERE r.queue = q.name) ON CONFLICT DO NOTHING
"""

# `updated_at` is checked again on the newest version of a row that is locked: a session that was used after the snapshot stays.
DELETE_ENDED: LiteralString = f"""
WITH mine AS MATERIALIZED (
    SELECT r.queue, r.reached, q.archives, now() - make_interval(secs => q.seconds) AS cutoff
      FROM retention r
      JOIN unnest(%(queues)s::text[], %(seconds)s::float8[], %(archives)s::bool[]) q (name, seconds, archives) ON q.name = r.queue
     WHERE r.due_at <= clock_timestamp() ORDER BY r.due_at LIMIT 1 FOR NO KEY UPDATE OF r SKIP LOCKED
), page AS MATERIALIZED (
    SELECT p.*, mine.cutoff FROM mine CROSS JOIN LATERAL (
        SELECT t.* FROM turns t WHERE t.queue = mine.queue AND t.finished_at > mine.reached AND t.finished_at < mine.cutoff
         ORDER BY t.finished_at LIMIT %(limit)s) p
), aged AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.session_id, t.seq, t.status, t.generation FROM page t
     WHERE NOT %(step_over)s AND (t.dropped_at IS NULL OR t.dropped_at < t.cutoff)
       AND NOT EXISTS (SELECT FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id
                          AND s.halted_by = t.id OFFSET 0)
       AND NOT {IS_NEEDED}
), answered AS MATERIALIZED (
    SELECT a.tenant_id, a.session_id, max(a.seq) AS reach FROM aged a WHERE a.status = 'SUCCEEDED' GROUP BY 1, 2
), history AS MATERIALIZED (
    -- The oldest answered turn that stays, if there is one among those that are old enough.
    SELECT n.tenant_id, n.session_id, (
           SELECT o.seq FROM turns o
            WHERE o.tenant_id = n.tenant_id AND o.session_id = n.session_id AND o.seq < n.reach
              AND {off_index("o.status")} = 'SUCCEEDED' AND o.id NOT IN (SELECT a.id FROM aged a)
            ORDER BY o.seq LIMIT 1) AS begins
      FROM answered n
), free AS MATERIALIZED (
    SELECT a.* FROM aged a LEFT JOIN history h ON h.tenant_id = a.tenant_id AND h.session_id = a.session_id
     WHERE a.status <> 'SUCCEEDED' OR h.begins IS NULL OR a.seq < h.begins
), left_with AS MATERIALIZED (
    SELECT f.tenant_id, f.session_id, m.archives
           OR EXISTS (SELECT FROM turns o WHERE o.tenant_id = f.tenant_id AND o.session_id = f.session_id
                         AND o.id NOT IN (SELECT e.id FROM free e) OFFSET 0)
           OR EXISTS (SELECT FROM archived_turns o WHERE o.tenant_id = f.tenant_id AND o.session_id = f.session_id OFFSET 0)
           OR NOT EXISTS (SELECT FROM sessions s WHERE s.tenant_id = f.tenant_id AND s.session_id = f.session_id OFFSET 0)
              AS something
      FROM (SELECT DISTINCT tenant_id, session_id FROM free) f CROSS JOIN mine m
), emptied AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id
      FROM left_with l JOIN sessions s ON {by_key("s.tenant_id", "l.tenant_id")} AND s.session_id = l.session_id
     WHERE NOT l.something AND s.halted_by IS NULL AND s.updated_at < now() - interval '1 hour'
     ORDER BY l.tenant_id, l.session_id FOR UPDATE OF s SKIP LOCKED
), going AS MATERIALIZED (
    SELECT f.id, f.generation FROM free f JOIN left_with l ON l.tenant_id = f.tenant_id AND l.session_id = f.session_id
     WHERE l.something OR EXISTS (SELECT FROM emptied e WHERE e.tenant_id = f.tenant_id AND e.session_id = f.session_id)
), gone AS (
    DELETE FROM turns t USING going g
     WHERE {by_key("t.id", "g.id")} AND t.generation = g.generation
       AND {off_index("t.status")} IN ('SUCCEEDED', 'FAILED', 'CANCELED')
    RETURNING t.*
), archived AS ({ARCHIVE_GONE} CROSS JOIN mine WHERE mine.archives
), {DELETE_ROWS}, traces_gone AS (
    DELETE FROM turn_traces r USING gone g, mine
     WHERE NOT mine.archives AND {by_key("r.turn_id", "g.id")} AND r.tenant_id = g.tenant_id AND r.turn_created_at = g.created_at
), sessions_gone AS (
    DELETE FROM sessions s USING emptied e WHERE {by_key("s.tenant_id", "e.tenant_id")} AND s.session_id = e.session_id
    RETURNING 1
), looked AS MATERIALIZED (
    SELECT count(*) AS turns, max(p.finished_at) AS reached FROM page p
), noted AS (
    UPDATE retention r
       SET reached = CASE WHEN l.turns < %(limit)s THEN '-infinity' ELSE l.reached END,
           due_at = clock_timestamp()
                    + make_interval(secs => CASE WHEN l.turns < %(limit)s THEN {REST_SECONDS} ELSE {PAUSE_SECONDS} END)
      FROM mine m CROSS JOIN looked l WHERE r.queue = m.queue
)
SELECT m.queue, m.archives AS archived, l.turns AS looked_at, l.turns >= %(limit)s AS more,
       (SELECT count(*) FROM gone g WHERE g.status = 'SUCCEEDED') AS succeeded,
       (SELECT count(*) FROM gone g WHERE g.status = 'FAILED') AS failed,
       (SELECT count(*) FROM gone g WHERE g.status = 'CANCELED') AS canceled,
       (SELECT count(*) FROM sessions_gone) AS sessions
  FROM mine m CROSS JOIN looked l
"""


@dataclass(frozen=True, slots=True)
class KeptFor:
    """How long the ended turns of a queue are kept, in seconds."""

    queue: str
    table_seconds: float
    """In the status table."""
    archive_seconds: float = 0.0
    """In the archive after that; 0: they are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What one statement deleted, or moved to the archive."""

    queue: str
    archived: bool
    """Whether the turns are in the archive now."""
    looked_at: int
    more: bool
    """Whether more turns of the queue may be old enough."""
    succeeded: int
    failed: int
    canceled: int
    sessions: int

    @property
    def turns(self) -> int:
        return self.succeeded + self.failed + self.canceled


class TurnRetention:
    """Deletes old turns, one statement a call. One for each process: it learns how many turns a statement can take."""

    def __init__(self, database: Database, kept: Collection[KeptFor]) -> None:
        self._database = database
        self._asked = {
            "queues": [one.queue for one in kept],
            "seconds": [one.table_seconds for one in kept],
            "archives": [one.archive_seconds > 0 for one in kept],
        }
        self._limit = BATCH

    async def delete_some(self) -> Deleted | None:
        """Deletes the oldest turns of the queue that has waited longest. None if no queue's turn has come: another relay works on
        it, or nothing more was old enough a minute ago.

        A statement that takes too long or meets a lock is repeated with half as many turns. A single turn is stepped over.
        Raises DatabaseUnavailableError.
        """
        if not self._asked["queues"]:
            return None
        await self._database.fetch(DECLARE, {"queues": self._asked["queues"]})
        rows = await fetch_bounded(self._database, DELETE_ENDED, self._terms(self._limit, step_over=False))
        if rows is None and self._limit == 1:
            rows = await self._database.fetch(DELETE_ENDED, self._terms(1, step_over=True))
        if rows is None:
            self._limit //= 2
            return await self.delete_some()
        self._limit = min(2 * self._limit, BATCH)
        return Deleted(**rows[0]) if rows else None

    def _terms(self, limit: int, *, step_over: bool) -> dict[str, object]:
        return {**self._asked, "limit": limit, "step_over": step_over}
