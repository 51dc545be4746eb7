"""Dead letters in the table: which turns are FAILED. Their rows last longer than the queue's fourteen days (G29)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, exists, or_, select, text

from turnstile.backends.postgres.database import Database
from turnstile.queries.tables import sessions, turns
from turnstile.statements.children import HAS_SUCCESSOR

_T = turns.alias("t")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter:
    """Which FAILED turns to list. A field that is left out matches all."""

    queue: str | None = None
    turn_ids: tuple[UUID, ...] = ()
    error_class: str | None = None
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTurn:
    """A FAILED row, as shown to an operator."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    kind: str
    attempt: int
    crashes: int
    generation: int
    error_class: str | None
    error: str | None
    trace_id: str
    created_at: datetime
    finished_at: datetime
    dead_lettered_at: datetime | None


async def list_failed(
    database: Database, wanted: FailedFilter, *, limit: int, after: UUID | None = None
) -> list[FailedTurn]:
    """The first `limit` matching FAILED turns after `after`, oldest first.

    Left out are turns that halt their session, because they are not given up yet, and children that their parent has started
    again. Turns without a dead letter (G27) are left out unless `turn_ids` names them.
    """
    names = FailedTurn.__dataclass_fields__
    statement: Select[Any] = select(*(_T.c[name] for name in names)).where(_T.c.status == "FAILED")
    halts = exists().where(
        sessions.c.halted_by == _T.c.id,
        sessions.c.tenant_id == _T.c.tenant_id,
        sessions.c.session_id == _T.c.session_id,
    )
    statement = statement.where(~halts, text(f"NOT {HAS_SUCCESSOR}"))
    if wanted.queue is not None:
        statement = statement.where(_T.c.queue == wanted.queue)
    if wanted.turn_ids:
        statement = statement.where(_T.c.id.in_(wanted.turn_ids))
    else:
        # A FAILED row with a `send_at` has a dead letter that is still to be sent.
        statement = statement.where(or_(_T.c.dead_lettered_at.is_not(None), _T.c.send_at.is_not(None)))
    if wanted.error_class is not None:
        statement = statement.where(_T.c.error_class == wanted.error_class)
    if wanted.tenant_id is not None:
        statement = statement.where(_T.c.tenant_id == wanted.tenant_id)
    if after is not None:
        statement = statement.where(_T.c.id > after)
    rows = await database.query(statement.order_by(_T.c.id).limit(limit))
    return [FailedTurn(**row) for row in rows]
