"""Webhooks in the table: owed, taken, delivered or given up.

A trigger inserts a row in the commit that ends the turn, one per generation of the turn, with the event as it was then. A try is
counted when the row is taken, like an attempt, so tries are limited even for a row that kills the delivering process. If that
process dies, `due_at` is still set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.webhook_secrets import SIGNING

# `to_hosts` and `of_tenants` count requests under way. The host of an invalid URL is some text, never NULL: each row is tried.
# One condition for both: the planner expects half of the rows to pass. With two it expects fewer, and reads and sorts all.
_DUE: LiteralString = """
    SELECT h.*, row_number() OVER (PARTITION BY h.host ORDER BY h.due_at) + h.to_host <= %(per_host)s
           AND row_number() OVER (PARTITION BY h.tenant_id ORDER BY h.due_at) + h.of_tenant <= %(per_tenant)s AS has_place
      FROM (
        SELECT w.turn_id, w.generation, w.tenant_id, w.due_at, h.*
          FROM webhooks w
         CROSS JOIN LATERAL (SELECT lower(split_part(split_part(split_part(w.url, '/', 3), '?', 1), ':', 1)) AS host) n
         CROSS JOIN LATERAL (SELECT n.host, coalesce((%(to_hosts)s::jsonb ->> n.host)::int, 0) AS to_host,
                                    coalesce((%(of_tenants)s::jsonb ->> w.tenant_id)::int, 0) AS of_tenant) h
         WHERE w.due_at <= now() AND NOT w.turn_id = ANY (%(left_out)s::uuid[])
           AND CASE WHEN h.to_host < %(per_host)s THEN h.of_tenant < %(per_tenant)s ELSE false END
           AND (%(only)s::uuid[] IS NULL OR w.turn_id = ANY (%(only)s::uuid[]))
         ORDER BY w.due_at LIMIT %(limit)s {lock}) h
"""

# Rows without a place are not changed.
TAKE: LiteralString = f"""
WITH due AS MATERIALIZED ({_DUE.format(lock="FOR NO KEY UPDATE OF w SKIP LOCKED")})
UPDATE webhooks w SET due_at = clock_timestamp() + make_interval(secs => %(stamp)s), tries = w.tries + 1
  FROM due
 WHERE {by_key("w.turn_id", "due.turn_id")} AND w.generation = due.generation AND due.has_place
RETURNING w.turn_id, w.generation, w.tenant_id, w.url, due.host, w.event, w.tries, w.due_at AS stamp,
          {SIGNING} AS secret_numbers
"""

FIND: LiteralString = f"""
SELECT w.turn_id AS id, w.event ->> 'trace_id' AS trace_id
  FROM ({_DUE.format(lock="")}) due JOIN webhooks w USING (turn_id, generation)
 WHERE due.has_place
"""

MOST_COUNTED = 10_000

# By the index `webhooks_due_at`. A webhook that is being posted is due again only after its stamp.
COUNT_DUE: LiteralString = """
SELECT count(*) AS due FROM (SELECT FROM webhooks w WHERE w.due_at <= now() LIMIT %(limit)s) d
"""

# Without a check of the stamp: a delivery counts even if the row was taken again meanwhile.
NOTE_DELIVERED: LiteralString = """
UPDATE webhooks SET delivered_at = clock_timestamp(), due_at = NULL, error = NULL
 WHERE turn_id = %(turn)s AND generation = %(generation)s AND delivered_at IS NULL
"""

NOTE_FAILED: LiteralString = """
UPDATE webhooks SET error = %(error)s, due_at = clock_timestamp() + make_interval(secs => %(again)s)
 WHERE turn_id = %(turn)s AND generation = %(generation)s AND due_at = %(stamp)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedWebhook:
    """A webhook leased to this process until `stamp`. `tries` includes this try."""

    turn_id: UUID
    generation: int
    tenant_id: str
    url: str
    host: str
    event: Mapping[str, Any]
    tries: int
    stamp: datetime
    secret_numbers: Sequence[int]
    """Which of the tenant's secrets sign it."""

    @property
    def trace_id(self) -> str | None:
        """The turn's trace when it ended."""
        return self.event.get("trace_id")

    @property
    def event_id(self) -> str:
        """Unique to each end of a turn; the same for every try."""
        return f"turn_{self.turn_id}_{self.generation}"


async def count_due(database: Database) -> int:
    """How many webhooks wait for a process that posts them; at most MOST_COUNTED. Raises DatabaseUnavailableError."""
    [row] = await database.fetch(COUNT_DUE, {"limit": MOST_COUNTED})
    return int(row["due"])


async def note_delivered(database: Database, webhook: OwedWebhook) -> None:
    """Records the delivery; the webhook is no longer owed."""
    await database.fetch(NOTE_DELIVERED, {"turn": webhook.turn_id, "generation": webhook.generation})


async def note_failed(database: Database, webhook: OwedWebhook, error: str, *, again_in_seconds: float | None) -> None:
    """Records a failed try. The webhook is due again after `again_in_seconds`; None: never."""
    parameters = {
        "turn": webhook.turn_id,
        "generation": webhook.generation,
        "stamp": webhook.stamp,
        "error": error,
        "again": again_in_seconds,
    }
    await database.fetch(NOTE_FAILED, parameters)
