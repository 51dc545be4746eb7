"""Dead letters in the table: which turns are FAILED. Their rows last longer than the queue's fourteen days (G29)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, exists, or_, select, text

from turnstile.backends.postgres.database import Database
from turnstile.queries.operator_turns import in_pages
from turnstile.queries.tables import sessions, turns
from turnstile.queries.turns import COLUMNS, TurnRecord, having, record
from turnstile.statements.children import HAS_SUCCESSOR


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter:
    """Which FAILED turns to list. A field that is left out matches all."""

    queue: str | None = None
    turn_ids: tuple[UUID, ...] = ()
    error_class: str | None = None
    tenant_id: str | None = None


def list_failed(database: Database, wanted: FailedFilter, limit: int | None = None) -> AsyncIterator[TurnRecord]:
    """The first `limit` matching FAILED turns, oldest first, without their replies; None: all.

    Left out are turns that halt their session, because they are not given up yet, and children that their parent has started
    again. Turns without a dead letter (G27) are left out unless `turn_ids` names them.
    """
    statement = _matching(wanted)

    async def read(room: int, last: UUID | None) -> list[TurnRecord]:
        beyond = () if last is None else (turns.c.id > last,)
        rows = await database.query(statement.where(*beyond).order_by(turns.c.id).limit(room))
        return [record(row) for row in rows]

    return in_pages(read, limit)


def _matching(wanted: FailedFilter) -> Select[Any]:
    halts = exists().where(
        sessions.c.halted_by == turns.c.id,
        sessions.c.tenant_id == turns.c.tenant_id,
        sessions.c.session_id == turns.c.session_id,
    )
    terms = having(queue=wanted.queue, error_class=wanted.error_class, tenant_id=wanted.tenant_id)
    if wanted.turn_ids:
        terms.append(turns.c.id.in_(wanted.turn_ids))
    else:
        # A FAILED row with a `send_at` has a dead letter that is still to be sent.
        terms.append(or_(turns.c.dead_lettered_at.is_not(None), turns.c.send_at.is_not(None)))
    return select(*COLUMNS).where(turns.c.status == "FAILED", ~halts, text(f"NOT {HAS_SUCCESSOR}"), *terms)
