"""The durable items of working memories: in Postgres only.

A write is valid only under its claim: one statement checks the turn's fence and RUNNING, with the row locked, and writes.
Versions come from one sequence while the turn is locked, so that within a session they rise in the order of the commits.

A deleted item stays as a row without content for a while: a delete that is repeated after a lost response finds its own row.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.errors import RowLockedError, SupersededError
from turnstile.memory.item import Item, MemoryFullError, Place, Write
from turnstile.sealing.place import Place as SealedPlace
from turnstile.sealing.place import item_column
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET
from turnstile.statements.locked_rows import stays_locked
from turnstile.statements.session_head import IS_RUNNING
from turnstile.turn.claimed_turn import ClaimedTurn

MAX_ITEMS = 200
"""Durable items of one session."""
MAX_BYTES = 1024 * 1024
"""Bytes of their contents together, because a search reads them together."""

_LIVES: LiteralString = "m.content IS NOT NULL AND m.expires_at > clock_timestamp()"

# In milliseconds, as those of other items in Redis.
_NOW: LiteralString = "date_trunc('milliseconds', clock_timestamp())"

_IS_OURS: LiteralString = f"t.id = %(turn)s AND t.fence = %(fence)s AND {IS_RUNNING}"

# Without the lock, a takeover could commit between the check and the write. SKIP LOCKED: a wait for a row that another
# transaction has locked would tie up one of the worker's few connections for each session that writes.
_MINE: LiteralString = (
    f"mine AS MATERIALIZED (SELECT t.id FROM turns t WHERE {_IS_OURS} FOR NO KEY UPDATE OF t SKIP LOCKED)"
)

_WHOSE: LiteralString = f"""
       EXISTS (SELECT FROM mine) AS ours,
       NOT EXISTS (SELECT FROM mine) AND EXISTS (SELECT FROM turns t WHERE {_IS_OURS}) AS locked"""

# ON CONFLICT compares the expected version, because it sees the newest committed row, even one that is younger than this
# statement. A row with our write_id comes from an earlier call whose response was lost.
WRITE_ITEMS: LiteralString = f"""
WITH w AS MATERIALIZED (
    SELECT *, {_NOW} AS at
      FROM unnest(%(kinds)s::text[], %(keys)s::text[], %(contents)s::text[], %(contexts)s::text[],
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
           nextval('memory_version_seq'), %(write_id)s, %(fence)s, w.at, w.at,
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
    RETURNING m.kind, m.key, m.version, m.created_at = m.updated_at AS is_new
)
SELECT {_WHOSE}, (SELECT enough FROM room) AS enough, w.kind, w.key, done.version, done.is_new
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
)
SELECT {_WHOSE}, w.kind, w.key, done.version
  FROM w LEFT JOIN done USING (kind, key)
"""

READ_ITEMS: LiteralString = f"""
SELECT m.kind, m.key, m.content::text AS text, m.context, m.priority, m.tags, m.version, m.created_at, m.updated_at,
       extract(epoch FROM m.expires_at - clock_timestamp())::float8 AS expires_in_seconds
  FROM memory_items m
 WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s AND {_LIVES}
   AND (%(keys)s::text[] IS NULL OR m.key = ANY (%(keys)s::text[]))
"""

# A minute late: a row that a write has found unexpired must not be deleted before it is written.
PRUNE_ITEMS: LiteralString = FORGET.format(
    table="memory_items", over="expires_at < now() - interval '1 minute'", by="expires_at"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is committed."""

    event: str
    """`created`, `updated` or `deleted`."""
    place: Place
    version: int
    context: str | None = None


async def write_items(database: Database, turn: ClaimedTurn, writes: Sequence[Write], write_id: UUID) -> list[Change]:
    """Writes items of the turn's session, each key once; returns those whose version was the expected one. `write_id` is new for
    each call: a repeated call finds its own writes.

    Raises SupersededError, MemoryFullError (nothing was written), DatabaseUnavailableError (RowLockedError: another transaction
    has locked the row); may be repeated.
    """
    parameters = {
        "kinds": [write.kind for write in writes],
        "keys": [write.key for write in writes],
        "contents": [
            database.contents.seal_json(write.text, _sealed_at(turn.tenant_id, turn.session_id, write.kind, write.key))
            for write in writes
        ],
        "contexts": [write.context for write in writes],
        "priorities": [write.priority for write in writes],
        "tags": ["\x1f".join(sorted(set(write.tags))) for write in writes],
        "seconds": [float(write.seconds()) for write in writes],
        "expected": [write.expected_version for write in writes],
    }
    rows = await _change(database, WRITE_ITEMS, turn, write_id, parameters)
    if not rows[0]["enough"]:
        raise MemoryFullError(
            "nothing was written: the session's durable memory is full. Delete items, or write smaller ones"
        )
    found = {(row["kind"], row["key"]): row for row in rows if row["version"] is not None}
    return [
        Change("created" if row["is_new"] else "updated", write.place, row["version"], write.context)
        for write in writes
        if (row := found.get((write.kind, write.key)))
    ]


async def delete_items(
    database: Database, turn: ClaimedTurn, places: Sequence[tuple[Place, int | None]], write_id: UUID
) -> list[Change]:
    """Deletes items of the turn's session, each once, if their version is the given one (None: any). Otherwise like
    `write_items`."""
    parameters = {
        "kinds": [place.kind.name for place, _ in places],
        "keys": [place.key for place, _ in places],
        "expected": [expected for _, expected in places],
    }
    rows = await _change(database, DELETE_ITEMS, turn, write_id, parameters)
    found = {(row["kind"], row["key"]): row["version"] for row in rows if row["version"] is not None}
    return [
        Change("deleted", place, version) for place, _ in places if (version := found.get((place.kind.name, place.key)))
    ]


async def read_items(database: Database, tenant_id: str, session_id: str, keys: Collection[str] | None) -> list[Item]:
    """The session's durable items: those with these keys, or all. Raises ContentsUnreadableError."""
    parameters = {"tenant": tenant_id, "session": session_id, "keys": None if keys is None else list(keys)}
    rows = await database.fetch(READ_ITEMS, parameters)
    return [
        Item(
            **{
                **row,
                "tags": frozenset(row["tags"]),
                "text": database.contents.open_json_text(
                    row["text"], _sealed_at(tenant_id, session_id, row["kind"], row["key"])
                ),
            }
        )
        for row in rows
    ]


async def prune_items(database: Database) -> bool:
    """Deletes the items that expired first. True if there may be more expired ones."""
    [row] = await database.fetch(PRUNE_ITEMS, {})
    return bool(row["gone"] == AT_ONCE)


def _sealed_at(tenant_id: str, session_id: str, kind: str, key: str) -> SealedPlace:
    return SealedPlace(tenant_id, session_id, None, item_column(kind, key))


async def _change(
    database: Database, statement: LiteralString, turn: ClaimedTurn, write_id: UUID, parameters: Parameters
) -> list[DictRow]:
    claim = {"tenant": turn.tenant_id, "session": turn.session_id, "turn": turn.id, "fence": turn.fence}
    rows: list[DictRow] = []

    async def look() -> bool:
        rows[:] = await database.fetch(statement, {**parameters, **claim, "write_id": write_id})
        return bool(rows[0]["locked"])

    if await stays_locked(look):
        raise RowLockedError("another transaction has locked the turn's row")
    if not rows[0]["ours"]:
        raise SupersededError
    return rows
