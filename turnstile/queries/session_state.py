"""A session as a chat page shows it: the last messages, the open turns, and the turns that got no reply.

All of it is read in one snapshot. Otherwise a turn that ends between two of the reads would be shown twice or not at all.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.queries.opened_record import open_record
from turnstile.queries.session_messages import (
    END_OF_SESSION,
    HISTORY_PAGE,
    history_page_parameters,
    open_history_page,
)
from turnstile.turn.conversation import Message
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

MOST_TURNS = 100
"""Open turns that are read of a session at most, the first in line; and turns without a reply, the last ones."""
RECENT_TURNS = 250
"""Turns of a session among which those without a reply are looked for, from the last one back."""

READ_SESSION: LiteralString = """
SELECT s.created_at, s.halted_by FROM sessions s WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s
"""

# As HISTORY_PAGE does, it counts the bytes here, so that inputs beyond `max_bytes` are not sent.
_WITH_INPUTS: LiteralString = """
SELECT p.* FROM (
       SELECT t.*, i.inputs, count(*) OVER () AS found, row_number() OVER line AS place,
              sum(octet_length(i.inputs::text)) OVER line AS bytes
         FROM ({turns}) t
        CROSS JOIN LATERAL (
              SELECT coalesce(json_agg(m.content ORDER BY m.ordinal), '[]'::json) AS inputs
                FROM messages m WHERE m.turn_id = t.id AND m.role = 'user' AND m.kind = 'message') i
       WINDOW line AS (ORDER BY {order} ROWS UNBOUNDED PRECEDING)) p
 WHERE p.place <= %(most)s AND (p.bytes <= %(max_bytes)s OR p.place = 1)
 ORDER BY p.place
"""

# In the order of the indexes that have open turns alone. A scheduled turn has no `seq`, and an index of its own.
OPEN_TURNS: LiteralString = _WITH_INPUTS.format(
    turns="""
              (SELECT o.* FROM turns o WHERE o.tenant_id = %(tenant)s AND o.session_id = %(session)s
                  AND o.seq IS NOT NULL AND o.status IN ('PENDING', 'RUNNING') ORDER BY o.seq LIMIT %(most)s + 1)
              UNION ALL
              (SELECT o.* FROM turns o WHERE o.tenant_id = %(tenant)s AND o.session_id = %(session)s
                  AND o.seq IS NULL AND (o.status || '') = 'PENDING' LIMIT %(most)s + 1)""",
    order="t.seq NULLS LAST, t.execute_at, t.id",
)

ENDED_TURNS: LiteralString = _WITH_INPUTS.format(
    turns="""
              SELECT r.* FROM (
                     SELECT n.* FROM turns n WHERE n.tenant_id = %(tenant)s AND n.session_id = %(session)s
                        AND n.seq IS NOT NULL ORDER BY n.seq DESC LIMIT %(recent)s) r
               WHERE r.status = ANY (%(statuses)s::text[]) ORDER BY r.seq DESC LIMIT %(most)s + 1""",
    order="t.seq DESC",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    created_at: datetime
    halted_by: UUID | None
    messages: Sequence[Message]
    """The last ones, oldest first."""
    more_messages: bool
    """Whether there are messages before them."""
    open: Sequence[TurnRecord]
    """In the order in which they will be answered; scheduled turns are the last."""
    more_open: bool
    """Whether there are open turns behind them."""
    ended: Sequence[TurnRecord]
    """Those of the statuses that were asked for, oldest first."""


async def read_session_state(
    database: Database,
    tenant_id: str,
    session_id: str,
    *,
    limit: int,
    max_bytes: int,
    with_open: bool,
    ended: Collection[TurnStatus],
) -> SessionState | None:
    """The session with its last `limit` messages; None if the tenant has no such session.

    `with_open`: with its open turns, MOST_TURNS at most. `ended`: with the turns of these statuses,
    RECENT_TURNS turns back and MOST_TURNS at most. The messages, the open turns and the ended turns have
    `max_bytes` of JSON each; a single one may be larger.

    Raises DatabaseUnavailableError, ContentsUnreadableError.
    """
    whose = {"tenant": tenant_id, "session": session_id}
    bounds = whose | {"most": MOST_TURNS, "max_bytes": max_bytes, "recent": RECENT_TURNS, "statuses": [*ended]}
    page = history_page_parameters(tenant_id, session_id, limit=limit, before=(END_OF_SESSION, 0), max_bytes=max_bytes)
    reads: list[tuple[LiteralString, Parameters]] = [(READ_SESSION, whose), (HISTORY_PAGE, page)]
    reads += [(OPEN_TURNS, bounds)] if with_open else []
    reads += [(ENDED_TURNS, bounds)] if ended else []
    (found, messages, *rest) = await database.fetch_snapshot(reads)
    if not found:
        return None
    session, open_rows, ended_rows = found[0], rest[0] if with_open else [], rest[-1] if ended else []
    said, more = open_history_page(messages, database.contents, tenant_id, session_id)
    return SessionState(
        created_at=session["created_at"],
        halted_by=session["halted_by"],
        messages=said,
        more_messages=more,
        open=[_turn(database, row, session["halted_by"]) for row in open_rows],
        more_open=bool(open_rows) and open_rows[0]["found"] > len(open_rows),
        ended=[_turn(database, row, session["halted_by"]) for row in reversed(ended_rows)],
    )


def _turn(database: Database, row: DictRow, halted_by: UUID | None) -> TurnRecord:
    return open_record(TurnRecord.of({**row, "halted_by": halted_by}), database.contents)
