"""Archiving: the ended turns of sessions at rest leave the status table, each with all that belonged to it.

A session goes as a whole or not at all: what is said in a session that lives, its order, its version and its joins are read from
`turns`, and half a history would be a wrong one. It is at rest when nothing has come into it since the cut-off and all its
turns had ended before; WHY_NOT has what keeps one turn, and with it its session. The session's row stays, with `last_seq`:
whoever speaks again goes on in the same numbering, before an empty history. Sessions named after a child or a compensation go.

The walk goes by (`tenant_id`, `created_at`, `id`), which the tenants' list has an index for: no turn ended before it was made.
A page reads a bounded number of rows and locks nothing. A move is one statement: turns deleted and archived are the same
rows in the same commit, so a run that is killed anywhere, or runs twice at once, loses and doubles nothing. What somebody
else holds is skipped, and is found by the next run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID

from turnstile.archive.partitions import make_months
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, TurnstileError

PAGE = 1000
"""Turns that one page of the walk reads, at most; and so many sessions' other turns, however many these are."""

STATEMENT_TIMEOUT_SECONDS = 4
"""Less than the hot statements wait for a lock: whoever speaks in a session that is just going waits, and is not refused."""
LOCK_TIMEOUT_SECONDS = 1

DEAD_LETTER_DAYS = 15
"""One more than SQS keeps a message: no dead letter outlives the row that says what became of its turn."""

_OUT_OF_TIME = "57014"
_IN_THE_WAY = frozenset({_OUT_OF_TIME, "25P04", "55P03", "40P01"})
"""The time-outs, deadlock: nothing was done."""


class Kept(StrEnum):
    """Why a session stays in the table."""

    IN_USE = "in_use"
    """Something came into it, or ended in it, since the cut-off."""
    OPEN = "open"
    """A turn of it is yet to end, be it scheduled for next year."""
    HALTED = "halted"
    """It waits for a person (G9)."""
    FAILED = "failed"
    """A turn of it is FAILED, may be redriven, and `failed` was not said."""
    DEAD_LETTER = "dead_letter"
    """A dead letter of it is owed, or may still be on its queue."""
    WEBHOOK = "webhook"
    """Somebody is still to be told how a turn of it ended."""
    PARENT = "parent"
    """A turn of it is the child or the compensation of one that is not done with yet."""
    OTHER_QUEUE = "other_queue"
    """A turn of it is of another queue than the one that was named."""


# First the cheap ones. No transition leaves SUCCEEDED and CANCELED; a FAILED turn may come back and ask for its children.
WHY_NOT: LiteralString = f"""
    CASE WHEN t.status IN ('PENDING', 'RUNNING') THEN '{Kept.OPEN}'
         WHEN t.finished_at >= %(cutoff)s THEN '{Kept.IN_USE}'
         WHEN %(queue)s::text <> t.queue THEN '{Kept.OTHER_QUEUE}'
         WHEN t.send_at IS NOT NULL THEN '{Kept.DEAD_LETTER}'
         WHEN t.status = 'FAILED' AND NOT %(failed)s THEN '{Kept.FAILED}'
         WHEN (t.generation > 1 OR t.dead_lettered_at IS NOT NULL)
              AND greatest(t.finished_at, t.dead_lettered_at) > now() - interval '{DEAD_LETTER_DAYS} days'
              THEN '{Kept.DEAD_LETTER}'
         WHEN EXISTS (SELECT FROM webhooks w WHERE w.turn_id = t.id AND w.due_at IS NOT NULL) THEN '{Kept.WEBHOOK}'
         WHEN EXISTS (SELECT FROM turns p
                       WHERE p.id = t.parent_turn_id AND p.tenant_id = t.tenant_id
                         AND (p.status || '') NOT IN ('SUCCEEDED', 'CANCELED'))
              THEN '{Kept.PARENT}' END
"""
"""Why turn `t` may not go; NULL if it may."""

CUTOFF: LiteralString = "SELECT clock_timestamp() - make_interval(secs => %(older_than)s) AS cutoff"

NEXT_TENANT: LiteralString = """
SELECT t.tenant_id FROM turns t WHERE t.tenant_id > %(after)s ORDER BY t.tenant_id LIMIT 1
"""

_OLD: LiteralString = """FROM turns t
     WHERE t.tenant_id = %(tenant)s AND t.created_at < %(cutoff)s AND (t.created_at, t.id) > (%(since)s, %(after)s)
     ORDER BY t.created_at, t.id"""

NEXT_TURN: LiteralString = f"SELECT t.created_at, t.id {_OLD} LIMIT 1"

# Each session is looked at where its first turn is met, so once in a walk. One in use costs its own row and no more.
READ_PAGE: LiteralString = f"""
WITH page AS MATERIALIZED (
    SELECT t.id, t.session_id, t.created_at {_OLD} LIMIT %(limit)s
)
SELECT page.created_at, page.id, s.session_id,
       CASE WHEN s.halted_by IS NOT NULL THEN '{Kept.HALTED}' WHEN s.updated_at >= %(cutoff)s THEN '{Kept.IN_USE}'
            ELSE its.kept END AS kept, its.turns, its.months
  FROM page
  LEFT JOIN LATERAL (
      SELECT f.id FROM turns f WHERE f.tenant_id = %(tenant)s AND f.session_id = page.session_id ORDER BY f.seq LIMIT 1
  ) first ON true
  LEFT JOIN sessions s ON s.tenant_id = %(tenant)s AND s.session_id = page.session_id AND page.id = first.id
  LEFT JOIN LATERAL (
      SELECT count(*) AS turns, min({WHY_NOT}) AS kept, array_agg(DISTINCT date_trunc('month', t.finished_at, 'UTC')) AS months
        FROM turns t
       WHERE t.tenant_id = %(tenant)s AND t.session_id = s.session_id AND s.halted_by IS NULL AND s.updated_at < %(cutoff)s
  ) its ON true
 ORDER BY page.created_at, page.id
"""

# Without bitmaps, a pinned plan has no way to a page but the index whose order it is in, and stops when it is full.
BOUNDS: LiteralString = f"""
SELECT set_config('statement_timeout', '{STATEMENT_TIMEOUT_SECONDS}s', true),
       set_config('lock_timeout', '{LOCK_TIMEOUT_SECONDS}s', true), set_config('enable_bitmapscan', 'off', true)
"""

# Lock order: sessions, then turns. With the session locked nothing comes into it and nothing of it is redriven; what did so since
# the page was read is seen here, because a locked row is looked at as it is by now. Whatever changes after the snapshot ends
# after the cut-off. What belongs to an ended turn does not change any more, so it is read as of the snapshot.
MOVE: LiteralString = f"""
WITH resting AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id
      FROM unnest(%(tenants)s::text[], %(sessions)s::text[]) w (tenant_id, session_id)
      JOIN sessions s ON s.tenant_id = w.tenant_id AND s.session_id = w.session_id
     WHERE s.updated_at < %(cutoff)s AND s.halted_by IS NULL
     ORDER BY s.tenant_id, s.session_id FOR NO KEY UPDATE OF s SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.session_id FROM resting r
      JOIN turns t ON t.tenant_id = r.tenant_id AND t.session_id = r.session_id
     WHERE ({WHY_NOT}) IS NULL
     ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
), whole AS MATERIALIZED (
    SELECT array_agg(l.id) AS ids FROM locked l GROUP BY l.tenant_id, l.session_id
    HAVING count(*) = (SELECT count(*) FROM turns t WHERE t.tenant_id = l.tenant_id AND t.session_id = l.session_id)
), going AS MATERIALIZED (SELECT unnest(whole.ids) AS id FROM whole
), gone AS (DELETE FROM turns t USING going WHERE t.id = going.id RETURNING t.*
), archived AS (
    -- Without what is empty, half of it; but what users have said may have nulls of its own.
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
    RETURNING ended_at
), messages_gone AS (
    DELETE FROM messages m USING going WHERE m.turn_id = going.id
), attempts_gone AS (
    DELETE FROM turn_attempts a USING going WHERE a.turn_id = going.id
), values_gone AS (
    DELETE FROM turn_values v USING going WHERE v.turn_id = going.id
), webhooks_gone AS (
    DELETE FROM webhooks w USING going WHERE w.turn_id = going.id
), sessions_gone AS (
    DELETE FROM sessions s USING gone g WHERE s.tenant_id = g.tenant_id AND s.session_id = g.session_id
       AND g.parent_turn_id IS NOT NULL AND g.session_id IN ('child:' || g.id, 'compensation:' || g.id)
)
SELECT (SELECT count(*) FROM whole) AS sessions, (SELECT count(*) FROM archived) AS turns
"""


class BrokenOffError(TurnstileError):
    """A page or a move took longer than a system at work can bear, or somebody was in its way. Nothing of it was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFilter:
    """What may go. `cutoff` is a moment of the database's clock that has passed (`read_cutoff`)."""

    cutoff: datetime
    queue: str | None = None
    """Only sessions all of whose turns are of this queue."""
    failed: bool = False
    """FAILED turns as well. They can't be redriven afterwards."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a walk has come in the turns of one tenant."""

    created_at: datetime
    id: UUID


BEGINNING = Position(datetime.min.replace(tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAtRest:
    """A session that was found at rest, with the beginnings of the months in which its turns ended."""

    tenant_id: str
    session_id: str
    turns: int
    months: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What one page of the walk has found. `following` is None behind the tenant's last old turn."""

    resting: tuple[SessionAtRest, ...]
    kept: tuple[Kept, ...]
    """For each session that stays, why: the first reason by name where there are several."""
    following: Position | None


@dataclass(frozen=True, slots=True)
class Moved:
    """How much went; less than was asked for where somebody was at work."""

    sessions: int
    turns: int


async def read_cutoff(database: Database, older_than_seconds: float) -> datetime:
    """The moment so long ago, by the clock that has stamped the turns."""
    cutoff: datetime = (await database.fetch(CUTOFF, {"older_than": float(older_than_seconds)}))[0]["cutoff"]
    return cutoff


async def find_tenant_after(database: Database, tenant_id: str) -> str | None:
    """The next tenant that has turns, by name; the first one after the empty name."""
    rows = await database.fetch(NEXT_TENANT, {"after": tenant_id})
    return rows[0]["tenant_id"] if rows else None


async def read_page(
    database: Database, wanted: ArchiveFilter, tenant_id: str, after: Position, limit: int = PAGE
) -> Page:
    """The sessions whose first turn is among the next `limit` old turns of the tenant. Reads, and locks nothing.

    Raises BrokenOffError where that takes too long, so that fewer may be asked for; DatabaseUnavailableError.
    """
    parameters = {**_terms(wanted), **_place(tenant_id, after), "limit": limit}
    try:
        _, rows = await database.fetch_pipelined([(BOUNDS, {}), (READ_PAGE, parameters)])
    except DatabaseUnavailableError as error:
        if _sqlstate(error) == _OUT_OF_TIME:
            raise BrokenOffError(str(error)) from error
        raise
    met = [row for row in rows if row["session_id"] is not None]
    return Page(
        resting=tuple(
            SessionAtRest(
                tenant_id=tenant_id, session_id=row["session_id"], turns=row["turns"], months=tuple(row["months"])
            )
            for row in met
            if row["kept"] is None
        ),
        kept=tuple(Kept(row["kept"]) for row in met if row["kept"] is not None),
        following=Position(rows[-1]["created_at"], rows[-1]["id"]) if len(rows) == limit else None,
    )


async def find_turn_after(
    database: Database, wanted: ArchiveFilter, tenant_id: str, after: Position
) -> Position | None:
    """The next old turn of the tenant, if there is one. Looks at no session, so that one can be stepped over."""
    parameters = {**_terms(wanted), **_place(tenant_id, after)}
    _, rows = await database.fetch_pipelined([(BOUNDS, {}), (NEXT_TURN, parameters)])
    return Position(rows[0]["created_at"], rows[0]["id"]) if rows else None


async def move(database: Database, wanted: ArchiveFilter, sessions: Sequence[SessionAtRest]) -> Moved:
    """Archives those of these sessions that are still at rest, in one statement, after it has made their months.

    Raises BrokenOffError, `archive_months.MonthDetachedError`, DatabaseUnavailableError; may be called again after each.
    """
    names = {
        "tenants": [session.tenant_id for session in sessions],
        "sessions": [session.session_id for session in sessions],
    }
    try:
        await make_months(database, {month for session in sessions for month in session.months})
        _, rows = await database.fetch_pipelined([(BOUNDS, {}), (MOVE, {**_terms(wanted), **names})])
    except DatabaseUnavailableError as error:
        if _sqlstate(error) in _IN_THE_WAY:
            raise BrokenOffError(str(error)) from error
        raise
    return Moved(**rows[0])


def _terms(wanted: ArchiveFilter) -> Mapping[str, Any]:
    return {"cutoff": wanted.cutoff, "queue": wanted.queue, "failed": wanted.failed}


def _place(tenant_id: str, after: Position) -> Mapping[str, Any]:
    return {"tenant": tenant_id, "since": after.created_at, "after": after.id}


def _sqlstate(error: DatabaseUnavailableError) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)
