"""Joining: a parent that waits for its children is PENDING until its `expires_at`, and is woken when they have ended.

A child wakes its parent after its own settle has committed, in a statement with a snapshot of its own: of two children
that end at the same moment, at least the later one sees that both have. Whatever ends without a settle (a cancel, a crash
loop), and whoever dies between settle and waking, is made up for by the relay's scan of all joins. To be woken for nothing
costs the parent a run and nothing else: its handler asks again.
"""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database

SCAN = 200
"""How many joins one scan looks at."""

IS_JOINED: LiteralString = """(
    NOT EXISTS (SELECT FROM turns c WHERE c.id = ANY (t.joining) AND ('' || c.status) IN ('PENDING', 'RUNNING'))
    OR EXISTS (SELECT FROM turns c WHERE c.id = ANY (t.joining)
                  AND CASE WHEN t.join_policy = 'any' THEN c.status = 'SUCCEEDED' ELSE c.status IN ('FAILED', 'CANCELED') END))
"""
"""Whether turn `t` has nothing left to wait for. `statements.children.is_joined` says the same of values."""

# A claim at `expires_at`, or a cancel, has moved a parent on while `joining` still stood: that is only cleared. Locked rows
# are skipped: whoever holds one is moving it on, and the next scan sees what became of it. The moment of the waking goes to
# `execute_at`, because a turn's queue_latency is counted from there.
_WAKE: LiteralString = """
), ready AS MATERIALIZED (
    SELECT t.id FROM waiting JOIN turns t ON t.id = ANY (ARRAY[waiting.id])
     WHERE num_nonnulls(t.joining) > 0 AND (t.status <> 'PENDING' OR {is_joined})
     ORDER BY waiting.id FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns t
   SET joining = NULL, join_policy = NULL, sends = CASE WHEN t.status = 'PENDING' THEN 0 ELSE t.sends END,
       execute_at = CASE WHEN t.status = 'PENDING' THEN now() ELSE t.execute_at END,
       send_at = CASE WHEN t.status = 'PENDING' THEN now() ELSE t.send_at END
  FROM ready WHERE t.id = ANY (ARRAY[ready.id]) AND num_nonnulls(t.joining) > 0
RETURNING t.id
"""

WAKE_PARENTS: LiteralString = f"""
WITH waiting AS MATERIALIZED (
    SELECT DISTINCT id FROM unnest(%(ids)s::uuid[]) w (id)
{_WAKE.format(is_joined=IS_JOINED)}"""

# At random, so that no join is left out for ever where there are more than one scan may look at; and without a word about
# the id, so that no index but that of the joins can serve it.
WAKE_JOINED: LiteralString = f"""
WITH waiting AS MATERIALIZED (
    SELECT j.id FROM turns j WHERE j.joining IS NOT NULL ORDER BY random() LIMIT %(limit)s
{_WAKE.format(is_joined=IS_JOINED)}"""


async def wake_parents(database: Database, parents: Sequence[UUID]) -> list[UUID]:
    """Makes those of these turns due whose join is over; returns them. The wake-up is the relay's to send.

    Raises DatabaseUnavailableError; may be called again.
    """
    return [row["id"] for row in await database.fetch(WAKE_PARENTS, {"ids": list(parents)})]


async def wake_joined(database: Database) -> list[UUID]:
    """The same for whoever waits, SCAN of them at most; called again and again by the relay."""
    return [row["id"] for row in await database.fetch(WAKE_JOINED, {"limit": SCAN})]
