"""Dead letters in the table: which turns are FAILED. Their rows last longer than the queue's fourteen days (G29)."""

from dataclasses import asdict, dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.queries.operator_turns import HALTING, in_pages
from turnstile.queries.turns import TurnRecord, equal, record, select_turns
from turnstile.statements.children import HAS_SUCCESSOR


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter:
    """Which FAILED turns to list. A field that is left out matches all."""

    queue: str | None = None
    turn_ids: tuple[UUID, ...] = ()
    error_class: str | None = None
    tenant_id: str | None = None


async def list_failed(database: Database, wanted: FailedFilter, limit: int | None = None) -> list[TurnRecord]:
    """The first `limit` matching FAILED turns, oldest first, without their replies; None: all.

    Left out are turns that halt their session, because they are not given up yet, and children that their parent has started
    again. Turns without a dead letter (G27) are left out unless `turn_ids` names them.
    """
    terms = equal(queue=wanted.queue, error_class=wanted.error_class, tenant_id=wanted.tenant_id)
    terms += ["t.status = 'FAILED'", f"NOT {HALTING}", f"NOT {HAS_SUCCESSOR}"]
    if wanted.turn_ids:
        terms.append("t.id = ANY (%(turn_ids)s::uuid[])")
    else:
        # A FAILED row with a `send_at` has a dead letter that is still to be sent.
        terms.append("(t.dead_lettered_at IS NOT NULL OR t.send_at IS NOT NULL)")

    async def read(room: int, last: UUID | None) -> list[TurnRecord]:
        beyond: list[LiteralString] = [] if last is None else ["t.id > %(last)s"]
        values = {**asdict(wanted), "turn_ids": list(wanted.turn_ids), "last": last, "limit": room}
        rows = await database.fetch(select_turns([*terms, *beyond], "t.id"), values)
        return [record(row) for row in rows]

    return await in_pages(read, limit)
