"""Peek: what the heads of sessions are, before they are claimed. Only where a limit depends on the turn's metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.statements.claim import EXPIRED_OF, ClaimRequest
from turnstile.statements.session_head import DUE_OF, OPEN_HEAD

PEEK_HEADS: LiteralString = f"""
SELECT w.place, h.id, h.metadata
  FROM unnest(%(tenants)s::text[], %(sessions)s::text[]) WITH ORDINALITY w (tenant_id, session_id, place)
  CROSS JOIN LATERAL ({OPEN_HEAD.format(of="w")}) h
 WHERE h.queue = %(queue)s AND ({DUE_OF.format(of="h")} OR {EXPIRED_OF.format(of="h")})
"""


@dataclass(frozen=True, slots=True)
class Head:
    """The turn that a claim of its session would take now."""

    id: UUID
    metadata: Mapping[str, Any]


async def peek_heads(database: Database, queue: str, requests: Sequence[ClaimRequest]) -> list[Head | None]:
    """The heads in the order of `requests`; None where nothing can be claimed. Raises DatabaseUnavailableError."""
    parameters = {
        "tenants": [request.tenant_id for request in requests],
        "sessions": [request.session_id for request in requests],
        "queue": queue,
    }
    rows = await database.fetch(PEEK_HEADS, parameters)
    found = {row["place"]: Head(row["id"], row["metadata"]) for row in rows}
    return [found.get(place) for place in range(1, len(requests) + 1)]
