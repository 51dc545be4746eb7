"""The durable items of working memories: written to Postgres first, then to Redis, and read again if Redis may be incomplete.

A write is valid only under its claim: one statement checks the turn's fence and RUNNING, with the row locked, and writes.
Versions come from one sequence while the session is locked, so that within a session they rise in the order of the commits.
`sessions.memory_version` is the newest. Each claim returns it, and it shows whether a cache is complete.

A deleted item stays as a row without content for a while: a delete that is repeated after a lost response finds its own row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database, Parameters
from turnstile.errors import RowLockedError, SupersededError
from turnstile.memory.item import Item, Place, Write
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET
from turnstile.statements.locked_rows import stays_locked
from turnstile.statements.session_head import IS_RUNNING
from turnstile.turn.claimed_turn import ClaimedTurn

MAX_ITEMS = 200
"""Durable items of one session."""
MAX_BYTES = 1024 * 1024
"""Bytes of their contents together, because they are read together."""

_LIVES: LiteralString = "m.content IS NOT NULL AND m.expires_at > clock_timestamp()"

# In milliseconds as in Redis, so that an item is the same from both.
_NOW: LiteralString = "date_trunc('milliseconds', clock_timestamp())"

_IS_OURS: LiteralString = f"t.id = %(turn)s AND t.fence = %(fence)s AND {IS_RUNNING}"

# Lock order: sessions, then turns. Without the lock, a takeover could commit between the check and the write. SKIP LOCKED: a wait
# for a row that another transaction has locked would tie up one of the worker's few connections for each session that writes.
_MINE: LiteralString = f"""
session AS MATERIALIZED (
    SELECT s.memory_version AS before FROM sessions s
     WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s FOR NO KEY UPDATE SKIP LOCKED
), mine AS MATERIALIZED (
    SELECT t.id, session.before FROM session CROSS JOIN turns t WHERE {_IS_OURS} FOR NO KEY UPDATE OF t SKIP LOCKED
)"""

_WHOSE: LiteralString = f"""
       EXISTS (SELECT FROM mine) AS ours,
       NOT EXISTS (SELECT FROM mine) AND EXISTS (SELECT FROM turns t WHERE {_IS_OURS}) AS locked"""

_NOTED: LiteralString = """
noted AS (
    UPDATE sessions s SET memory_version = greatest(s.memory_version, changed.version)
      FROM (SELECT max(version) AS version FROM done) changed
     WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s AND changed.version IS NOT NULL
    RETURNING s.memory_version AS after
)"""

# ON CONFLICT compares the expected version, because it sees the newest committed row, even one that is younger than this
# statement. A row with our write_id comes from an earlier call whose response was lost.
WRITE_ITEMS: LiteralString = f"""
WITH w AS MATERIALIZED (
    SELECT * FROM unnest(%(kinds)s::text[], %(keys)s::text[], %(contents)s::text[], %(contexts)s::text[],
                         %(priorities)s::int[], %(tags)s::text[], %(seconds)s::float8[], %(expected)s::bigint[])
        w (kind, key, content, context, priority, tags, seconds, expected)
), {_MINE}, room AS MATERIALIZED (
    SELECT count(*) + (SELECT count(*) FROM w) <= {MAX_ITEMS}
           AND coalesce(sum(octet_length(m.content::text)), 0) + (SELECT sum(octet_length(content)) FROM w) <= {MAX_BYTES}
               AS enough
      FROM memory_items m
     WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s AND {_LIVES}
       AND NOT EXISTS (SELECT FROM w WHERE w.kind = m.kind AND w.key = m.key)
), done AS (
    INSERT INTO memory_items AS m (tenant_id, session_id, kind, key, content, context, priority, tags, version, write_id,
                                   fence, created_at, updated_at, expires_at)
    SELECT %(tenant)s, %(session)s, w.kind, w.key, w.content::json, w.context, w.priority, string_to_array(w.tags, chr(31)),
           nextval('memory_version_seq'), %(write_id)s, %(fence)s, {_NOW}, {_NOW},
           clock_timestamp() + make_interval(secs => w.seconds)
      FROM mine CROSS JOIN room CROSS JOIN w
     WHERE room.enough
       AND (coalesce(w.expected, 0) = 0
            OR EXISTS (SELECT FROM memory_items m WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s
                          AND m.kind = w.kind AND m.key = w.key AND {_LIVES}))
     ORDER BY w.kind, w.key
    ON CONFLICT (tenant_id, session_id, kind, key) DO UPDATE
       SET content = excluded.content, context = excluded.context, priority = excluded.priority, tags = excluded.tags,
           version = CASE WHEN m.write_id = excluded.write_id THEN m.version ELSE excluded.version END,
           write_id = excluded.write_id, fence = excluded.fence,
           created_at = CASE WHEN {_LIVES} THEN m.created_at ELSE excluded.created_at END,
           updated_at = excluded.updated_at, expires_at = excluded.expires_at
     WHERE m.write_id = excluded.write_id
        OR (SELECT w.expected IS NULL OR w.expected = CASE WHEN {_LIVES} THEN m.version ELSE 0 END
              FROM w WHERE w.kind = excluded.kind AND w.key = excluded.key)
    RETURNING m.kind, m.key, m.version, m.created_at, m.updated_at, m.expires_at
), {_NOTED}
SELECT {_WHOSE}, (SELECT enough FROM room) AS enough, (SELECT before FROM mine) AS before,
       coalesce((SELECT after FROM noted), (SELECT before FROM mine)) AS after, w.kind, w.key, done.version, done.created_at,
       done.updated_at, extract(epoch FROM done.expires_at - clock_timestamp())::float8 AS seconds
  FROM w LEFT JOIN done USING (kind, key)
"""

DELETE_ITEMS: LiteralString = f"""
WITH w AS MATERIALIZED (
    SELECT * FROM unnest(%(kinds)s::text[], %(keys)s::text[], %(expected)s::bigint[]) w (kind, key, expected)
), {_MINE}, done AS (
    UPDATE memory_items m
       SET content = NULL, write_id = %(write_id)s, fence = %(fence)s, updated_at = clock_timestamp(),
           version = CASE WHEN m.write_id = %(write_id)s THEN m.version ELSE nextval('memory_version_seq') END,
           expires_at = clock_timestamp() + interval '1 hour'
      FROM mine CROSS JOIN w
     WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s AND m.kind = w.kind AND m.key = w.key
       AND (m.write_id = %(write_id)s OR {_LIVES} AND (w.expected IS NULL OR w.expected = m.version))
    RETURNING m.kind, m.key, m.version
), {_NOTED}
SELECT {_WHOSE}, (SELECT before FROM mine) AS before, coalesce((SELECT after FROM noted), (SELECT before FROM mine)) AS after,
       w.kind, w.key, done.version
  FROM w LEFT JOIN done USING (kind, key)
"""

# LEFT JOIN: at least one row, so that one statement reads both the version and the items.
READ_ITEMS: LiteralString = f"""
SELECT s.memory_version, m.kind, m.key, m.content::text AS text, m.context, m.priority, m.tags, m.version, m.created_at,
       m.updated_at, extract(epoch FROM m.expires_at - clock_timestamp())::float8 AS expires_in_seconds
  FROM sessions s LEFT JOIN memory_items m ON m.tenant_id = s.tenant_id AND m.session_id = s.session_id AND {_LIVES}
 WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s
"""

# A minute late: a row that a write has found unexpired must not be deleted before it is written.
PRUNE_ITEMS: LiteralString = FORGET.format(
    table="memory_items", over="expires_at < now() - interval '1 minute'", by="expires_at"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The result of a call."""

    before: int
    """The session's version before the call."""
    after: int
    """The session's version after the call; equal to `before` if nothing was changed."""
    written: Sequence[Item] = ()
    """Without those whose version was not the expected one."""
    deleted: Sequence[Place] = ()
    """Without those that were not there, or whose version was not the expected one."""
    enough_room: bool = True
    """False: nothing was written, because the session would exceed its limit."""


async def write_items(database: Database, turn: ClaimedTurn, writes: Sequence[Write], write_id: UUID) -> Changed:
    """Writes items of the turn's session, each key once. `write_id` is new for each call: a repeated call finds its own writes.

    Raises SupersededError, DatabaseUnavailableError (RowLockedError: another transaction has locked the row); may be repeated.
    """
    parameters = {
        "kinds": [write.kind for write in writes],
        "keys": [write.key for write in writes],
        "contents": [write.text for write in writes],
        "contexts": [write.context for write in writes],
        "priorities": [write.priority for write in writes],
        "tags": ["\x1f".join(sorted(set(write.tags))) for write in writes],
        "seconds": [float(write.seconds()) for write in writes],
        "expected": [write.expected_version for write in writes],
    }
    rows = await _change(database, WRITE_ITEMS, turn, write_id, parameters)
    found = {(row["kind"], row["key"]): row for row in rows if row["version"] is not None}
    written = [
        Item(
            key=write.key,
            kind=write.kind,
            text=write.text,
            context=write.context,
            priority=write.priority,
            tags=frozenset(write.tags),
            version=row["version"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            expires_in_seconds=row["seconds"],
        )
        for write in writes
        if (row := found.get((write.kind, write.key)))
    ]
    return Changed(before=rows[0]["before"], after=rows[0]["after"], written=written, enough_room=rows[0]["enough"])


async def delete_items(
    database: Database, turn: ClaimedTurn, places: Sequence[tuple[Place, int | None]], write_id: UUID
) -> Changed:
    """Deletes items of the turn's session, each once, if their version is the given one (None: any). Else as `write_items`."""
    parameters = {
        "kinds": [place.kind.name for place, _ in places],
        "keys": [place.key for place, _ in places],
        "expected": [expected for _, expected in places],
    }
    rows = await _change(database, DELETE_ITEMS, turn, write_id, parameters)
    gone = {(row["kind"], row["key"]) for row in rows if row["version"] is not None}
    deleted = [place for place, _ in places if (place.kind.name, place.key) in gone]
    return Changed(before=rows[0]["before"], after=rows[0]["after"], deleted=deleted)


async def read_items(database: Database, tenant_id: str, session_id: str) -> tuple[int, list[Item]]:
    """The session's version and all its durable items, from one snapshot."""
    rows = await database.fetch(READ_ITEMS, {"tenant": tenant_id, "session": session_id})
    version = rows[0]["memory_version"] if rows else 0
    names = [each.name for each in fields(Item) if each.init]
    items = [{name: row[name] for name in names} for row in rows if row["key"] is not None]
    return version, [Item(**{**item, "tags": frozenset(item["tags"])}) for item in items]


async def prune_items(database: Database) -> bool:
    """Deletes the items that expired first. True if there may be more expired ones."""
    [row] = await database.fetch(PRUNE_ITEMS, {})
    return bool(row["gone"] == AT_ONCE)


async def _change(
    database: Database, statement: LiteralString, turn: ClaimedTurn, write_id: UUID, parameters: Parameters
) -> list[DictRow]:
    claim = {"tenant": turn.tenant_id, "session": turn.session_id, "turn": turn.id, "fence": turn.fence}
    rows: list[DictRow] = []

    async def look() -> bool:
        rows[:] = await database.fetch(statement, {**parameters, **claim, "write_id": write_id})
        return bool(rows[0]["locked"])

    if await stays_locked(look):
        raise RowLockedError("another transaction has locked the turn's row or its session's")
    if not rows[0]["ours"]:
        raise SupersededError
    return rows
