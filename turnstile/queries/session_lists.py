"""The sessions of a tenant, for the API: those with the newest turns first. They are read from the table, not from the archive.

A session's place in the list is the time at which its newest turn was submitted. No index keeps that: each submit would have to
move its session in it. The list reads the tenant's turns, newest first, in the index that the lists of turns have, and takes each
turn that is the newest of its session.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.queries.turn_lists import REACH, Position, end_of_reach, query_rows

# A redriven or scheduled turn gets its `seq` after turns that were submitted later: it counts only in a
# session that has no others. Of the turns that count, the one with the highest `seq` was submitted last.
# So one look in the index decides, however long the session is. LIMIT 1: the plan looks up each session
# by its key, and never reads all sessions of a tenant.
_LIST: LiteralString = """
SELECT w.session_id, s.created_at, s.halted_by, w.created_at AS last_turn_at, w.id AS last_turn_id,
       coalesce((SELECT true FROM turns o WHERE o.tenant_id = w.tenant_id AND o.session_id = w.session_id
                    AND o.seq IS NOT NULL AND o.status IN ('PENDING', 'RUNNING') LIMIT 1),
                (SELECT true FROM turns o WHERE o.tenant_id = w.tenant_id AND o.session_id = w.session_id
                    AND o.seq IS NULL AND (o.status || '') = 'PENDING' LIMIT 1), false) AS has_open_turns
  FROM (SELECT t.id, t.tenant_id, t.session_id, t.seq, t.created_at, t.queued_at, t.parent_turn_id
          FROM turns t WHERE t.tenant_id = %(tenant_id)s {after}
         ORDER BY t.created_at DESC, t.id DESC LIMIT %(reach)s) w
 CROSS JOIN LATERAL (
       SELECT s.created_at, s.halted_by FROM sessions s
        WHERE s.tenant_id = w.tenant_id AND s.session_id = w.session_id LIMIT 1) s
 WHERE w.seq IS NOT NULL
   AND NOT (w.parent_turn_id IS NOT NULL AND w.session_id IN ('child:' || w.id, 'compensation:' || w.id))
   AND CASE WHEN w.queued_at = w.created_at
            THEN (SELECT n.seq FROM turns n WHERE n.tenant_id = w.tenant_id AND n.session_id = w.session_id
                     AND n.seq > w.seq AND n.queued_at = n.created_at ORDER BY n.seq LIMIT 1) IS NULL
            ELSE (SELECT n.seq FROM turns n WHERE n.tenant_id = w.tenant_id AND n.session_id = w.session_id
                     AND n.seq IS NOT NULL ORDER BY n.seq DESC LIMIT 1) = w.seq
             AND (SELECT n.seq FROM turns n WHERE n.tenant_id = w.tenant_id AND n.session_id = w.session_id
                     AND n.seq < w.seq AND n.queued_at = n.created_at ORDER BY n.seq DESC LIMIT 1) IS NULL END
 ORDER BY w.created_at DESC, w.id DESC LIMIT %(limit)s
"""
FIRST_PAGE: LiteralString = _LIST.format(after="")
NEXT_PAGE: LiteralString = _LIST.format(after="AND (t.created_at, t.id) < (%(before_at)s, %(before_id)s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    """A session in a list."""

    session_id: str
    created_at: datetime
    last_turn_at: datetime
    """When its newest turn was submitted."""
    last_turn_id: UUID
    has_open_turns: bool
    """Whether a turn of it waits, runs or is scheduled."""
    halted_by: UUID | None


async def list_sessions(
    database: Database, tenant_id: str, *, limit: int, before: Position | None = None
) -> tuple[list[ListedSession], Position | None]:
    """The first `limit` sessions of the tenant after `before`, newest turn first; and the `before` of the
    next page. None if there is no next page. Raises ListTooBroadError.

    A page reads REACH turns at most: where long sessions were busy, it may have fewer than `limit`
    sessions, or none, and still have a next page. A session that gets a turn between two pages moves before
    the first one. A session is left out if all of its turns are scheduled or archived, and if it is named
    after a child or a compensation.
    """
    filters = {"tenant_id"} if before is None else {"tenant_id", "before"}
    before_at, before_id = before or (None, None)
    values: dict[str, Any] = {"tenant_id": tenant_id, "limit": limit + 1, "reach": REACH, "skipped": REACH - 1}
    values |= {"before_at": before_at, "before_id": before_id}
    rows = await query_rows(database, FIRST_PAGE if before is None else NEXT_PAGE, values)
    found = [ListedSession(**row) for row in rows]
    if len(found) > limit:
        return found[:limit], _position(found[limit - 1])
    ends = await query_rows(database, end_of_reach(frozenset(filters)), values)
    if not ends:
        return found, None
    # Turns submitted since have moved this end towards newer turns: what is older comes with the next page.
    end = (ends[0]["created_at"], ends[0]["id"])
    return [one for one in found if _position(one) >= end], end


def _position(session: ListedSession) -> Position:
    return session.last_turn_at, session.last_turn_id
