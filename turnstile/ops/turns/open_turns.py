"""Open turns by filter, for a cancel of many.

The partial indexes `turns_open`, `turns_scheduled` and `turns_running` have the open turns and no others: what is read is bounded
by their number, and at most `MOST` are returned.
"""

from dataclasses import asdict, dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.ops.turns.trace_tree import OF_TRACE
from turnstile.queries.turns import equal
from turnstile.turn.status import TurnStatus

MOST = 100_000
"""Turns of one list: some tens of megabytes."""

_COLUMNS: LiteralString = "t.id, t.tenant_id, t.session_id, t.queue, t.status"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFilter:
    """Which open turns to list. A field that is left out matches all."""

    queue: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None
    """Of this trace, the present one or an earlier."""
    status: TurnStatus | None = None
    """PENDING or RUNNING; None: both."""
    older_than_seconds: float | None = None
    """Only those that were submitted longer ago than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: TurnStatus


async def list_open(database: Database, wanted: OpenFilter, limit: int = MOST) -> list[OpenTurn]:
    """The first `limit` matching open turns, scheduled ones included, oldest first. Without compensations: nobody submitted
    them, and they undo what a turn did."""
    terms = equal(queue=wanted.queue, tenant_id=wanted.tenant_id, session_id=wanted.session_id)
    terms.append("t.kind = 'turn'")
    if wanted.trace_id is not None:
        terms.append(OF_TRACE)
    if wanted.older_than_seconds is not None:
        terms.append("t.created_at < now() - make_interval(secs => %(older_than_seconds)s)")
    # One branch for each partial index. With its predicate as literals: a plan for any status could use none of them.
    placed: list[LiteralString] = ["t.seq IS NOT NULL", "t.status IN ('PENDING', 'RUNNING')"]
    branches: list[list[LiteralString]] = []
    if wanted.status is not TurnStatus.RUNNING:
        branches.append([*placed, "t.status = 'PENDING'"])
        branches.append(["t.seq IS NULL", "t.status = 'PENDING'"])
    if wanted.status is not TurnStatus.PENDING:
        branches.append([*placed, "t.status = 'RUNNING'"])
    selects = [f"SELECT {_COLUMNS} FROM turns t WHERE {' AND '.join((*branch, *terms))}" for branch in branches]
    statement: LiteralString = f"SELECT * FROM ({' UNION ALL '.join(selects)}) t ORDER BY t.id LIMIT %(limit)s"
    rows = await database.fetch(statement, {**asdict(wanted), "limit": limit})
    return [OpenTurn(**{**row, "status": TurnStatus(row["status"])}) for row in rows]
