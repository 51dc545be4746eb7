"""The history of a session: what was said in its answered turns, read from Postgres."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turns.database import Database

# The newest `limit` messages of answered turns, plus the input of the turn that asks: read from the newest seq back, so
# that a session of any length costs the same.
HISTORY: LiteralString = """
SELECT m.turn_id, t.seq, m.ordinal, m.role, m.content, m.created_at
  FROM turns t JOIN messages m ON m.turn_id = t.id AND m.kind = 'message'
 WHERE t.tenant_id = %(tenant)s AND t.session_id = %(session)s AND t.seq < %(before)s AND t.status = 'SUCCEEDED'
 ORDER BY t.seq DESC, m.ordinal DESC LIMIT %(limit)s
"""

SESSION_EXISTS: LiteralString = "SELECT 1 FROM sessions WHERE tenant_id = %(tenant)s AND session_id = %(session)s"

END_OF_SESSION = 2**62
"""Above every `seq`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that was said."""

    turn_id: UUID
    seq: int
    ordinal: int
    role: str
    content: Any
    created_at: datetime


async def read_history(
    database: Database, tenant_id: str, session_id: str, *, limit: int, before_seq: int = END_OF_SESSION
) -> list[Message]:
    """The last `limit` messages of the session's answered turns before `before_seq`, oldest first."""
    parameters = {"tenant": tenant_id, "session": session_id, "limit": limit, "before": before_seq}
    rows = await database.fetch(HISTORY, parameters)
    return [Message(**row) for row in reversed(rows)]


async def session_exists(database: Database, tenant_id: str, session_id: str) -> bool:
    """Whether the tenant has such a session."""
    return bool(await database.fetch(SESSION_EXISTS, {"tenant": tenant_id, "session": session_id}))
