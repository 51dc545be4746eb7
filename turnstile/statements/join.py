"""Joining: a parent that waits for its children is PENDING until its `expires_at`, and is woken when they have ended.

A child wakes its parent after its own settle has committed, in a statement with its own snapshot: if two children end at the
same moment, at least the later one sees that both have ended. The relay's scan of all joins covers children that end without a
settle (a cancel, a crash loop) and workers that die between settle and wake-up. An unnecessary wake-up costs the parent only a
run: its handler joins again.
"""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index

SCAN = 200
"""How many joins one scan looks at."""

IS_JOINED: LiteralString = f"""(
    NOT EXISTS (SELECT FROM turns c WHERE c.id = ANY (t.joining) AND {off_index("c.status")} IN ('PENDING', 'RUNNING'))
    OR EXISTS (SELECT FROM turns c WHERE c.id = ANY (t.joining)
                  AND CASE WHEN t.join_policy = 'any' THEN c.status = 'SUCCEEDED' ELSE c.status IN ('FAILED', 'CANCELED') END))
"""
"""Whether turn `t` has nothing left to wait for. `statements.start_children.is_joined` does the same in Python."""

# A claim at `expires_at`, or a cancel, ends a parent's wait without clearing `joining`: then only `joining` is cleared here.
# Locked rows are skipped: the other transaction is changing the row, and the next scan sees the result. `execute_at` becomes the
# time of the wake-up, because a turn's queue_latency is counted from there.
_WAKE: LiteralString = f"""
), ready AS MATERIALIZED (
    SELECT t.id FROM waiting JOIN turns t ON {by_key("t.id", "waiting.id")}
     WHERE num_nonnulls(t.joining) > 0 AND (t.status <> 'PENDING' OR {IS_JOINED})
     ORDER BY waiting.id FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns t
   SET joining = NULL, join_policy = NULL, sends = CASE WHEN t.status = 'PENDING' THEN 0 ELSE t.sends END,
       execute_at = CASE WHEN t.status = 'PENDING' THEN now() ELSE t.execute_at END,
       send_at = CASE WHEN t.status = 'PENDING' THEN now() ELSE t.send_at END
  FROM ready WHERE {by_key("t.id", "ready.id")} AND num_nonnulls(t.joining) > 0
RETURNING t.id, t.trace_id
"""

WAKE_PARENTS: LiteralString = f"""
WITH waiting AS MATERIALIZED (
    SELECT DISTINCT id FROM unnest(%(ids)s::uuid[]) w (id)
{_WAKE}"""

# In random order, so that every join is read at some time even if there are more than one scan reads. No condition on the id, so
# that only the index of the joins fits.
WAKE_JOINED: LiteralString = f"""
WITH waiting AS MATERIALIZED (
    SELECT j.id FROM turns j WHERE j.joining IS NOT NULL ORDER BY random() LIMIT %(limit)s
{_WAKE}"""


async def wake_parents(database: Database, parents: Sequence[UUID]) -> dict[UUID, str]:
    """Makes due those `parents` whose join is complete. Returns {turn id: trace id}. The relay sends the wake-ups.

    Raises DatabaseUnavailableError; may be called again.
    """
    return {row["id"]: row["trace_id"] for row in await database.fetch(WAKE_PARENTS, {"ids": list(parents)})}


async def wake_joined(database: Database) -> list[UUID]:
    """The same for at most SCAN of all turns that wait for children; returns their ids. The relay calls it regularly."""
    return [row["id"] for row in await database.fetch(WAKE_JOINED, {"limit": SCAN})]
