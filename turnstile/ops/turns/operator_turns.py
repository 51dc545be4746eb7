"""Reads for an operator, who has the database's credentials: turns of all tenants.

Separate from `queries.turns` on purpose: the API can't read another tenant's turns, not even by mistake.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.archive.reads import IN_EITHER
from turnstile.backends.postgres.database import Database
from turnstile.queries.turns import read_turn
from turnstile.sealing.messages import open_message
from turnstile.turn.turn_record import TurnRecord

FIND_TENANTS: LiteralString = """
SELECT tenant_id, NULL AS ended_at FROM turns WHERE id = %(id)s
UNION ALL
SELECT tenant_id, ended_at FROM archived_turns WHERE id = %(id)s
 ORDER BY ended_at DESC NULLS FIRST
"""

MESSAGES: LiteralString = IN_EITHER.format(table="messages", archived="messages", order="ordinal")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage:
    ordinal: int
    role: str
    kind: str
    content: Any
    created_at: datetime


async def find_tenants(database: Database, turn_id: UUID) -> list[str]:
    """The tenants with a turn of this id: first that of the table, then those of the archive, the last ended turn first."""
    rows = await database.fetch(FIND_TENANTS, {"id": turn_id})
    return list(dict.fromkeys(row["tenant_id"] for row in rows))


async def read_turn_of_any(database: Database, turn_id: UUID) -> TurnRecord | None:
    """One turn of any tenant with its reply. If several tenants have the id: that of the first in `find_tenants`."""
    tenants = await find_tenants(database, turn_id)
    return await read_turn(database, tenants[0], turn_id) if tenants else None


async def read_messages(database: Database, tenant_id: str, turn_id: UUID) -> list[TurnMessage]:
    """What was said in a turn. Raises ContentsUnreadableError."""
    rows = await database.fetch(MESSAGES, {"tenant": tenant_id, "id": turn_id})
    return [
        TurnMessage(
            ordinal=row["ordinal"],
            role=row["role"],
            kind=row["kind"],
            content=open_message(
                database.contents, row["content"], tenant_id, row["session_id"], turn_id, row["role"], row["kind"]
            ),
            created_at=row["created_at"],
        )
        for row in rows
    ]
