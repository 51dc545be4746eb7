"""Renew: the heartbeat's statement. It renews leases and reads cancel requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.session_head import IS_RUNNING

# A claim is lost only if the row's fence or status differs, never because the row was locked and skipped. An expired lease may
# have been marked as lost (`statements.lost_turns`): the worker is alive, so the mark is removed.
# A statement that writes nothing commits at once, also while every other COMMIT hangs. The message gives each renewal something
# to commit, with empty lists too, so its success proves that commits work (`relay.renewal_evidence`).
RENEW: LiteralString = f"""
WITH b AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[]) b (id, fence)
), beat AS MATERIALIZED (
    SELECT clock_timestamp() AS at, pg_logical_emit_message(true, 'turnstile', '')
), free AS MATERIALIZED (
    SELECT t.id, t.fence FROM b JOIN turns t ON {by_key("t.id", "b.id")} WHERE t.fence = b.fence AND {IS_RUNNING}
     ORDER BY b.id FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
    UPDATE turns t SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s), send_at = NULL
      FROM free WHERE {by_key("t.id", "free.id")}
)
SELECT beat.at, b.id, b.fence, coalesce(t.fence = b.fence AND t.status = 'RUNNING', false) AS ours,
       free.id IS NOT NULL AS renewed, t.cancel_requested_at IS NOT NULL AS cancel_requested, t.cancel_reason
  FROM beat LEFT JOIN b ON true
  LEFT JOIN turns t ON {by_key("t.id", "b.id")} LEFT JOIN free ON free.id = b.id AND free.fence = b.fence
"""


@dataclass(frozen=True, slots=True)
class Renewal:
    id: UUID
    fence: int
    ours: bool
    """False: another claim has the turn, or it ended. Nothing else may stop a handler for good."""
    renewed: bool
    """False although `ours`: another transaction has locked the row. Ask again soon."""
    cancel_requested: bool
    cancel_reason: str | None


@dataclass(frozen=True, slots=True)
class Renewals:
    """What one committed statement says."""

    at: datetime
    """The database's clock while it ran."""
    rows: list[Renewal]


async def renew(database: Database, leases: Sequence[tuple[UUID, int]], lease_seconds: float) -> Renewals:
    """Renews `leases` (turn id, fence), also an expired one if no other claim has the turn. `leases` may be empty.

    Raises DatabaseUnavailableError.
    """
    parameters = {
        "ids": [turn_id for turn_id, _ in leases],
        "fences": [fence for _, fence in leases],
        "lease": lease_seconds,
    }
    found = await database.fetch(RENEW, parameters)
    at: datetime = found[0]["at"]
    rows = [{name: value for name, value in row.items() if name != "at"} for row in found if row["id"] is not None]
    return Renewals(at, [Renewal(**row) for row in rows])
