"""The history of a session: the messages of its SUCCEEDED turns, read from Postgres."""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.sealing.contents import Contents
from turnstile.sealing.messages import open_message
from turnstile.sealing.place import Place, message_column
from turnstile.statements.read_claims import LAST_ANSWERED
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion, Message, StoredMessage
from turnstile.turn.identifiers import is_reserved_session

# Reads from the newest seq back, so that a session of any length costs the same. The inner query sorts by `seq` alone, which is
# the order of the index, and takes the whole last turn: to sort by the ordinal, too, PostgreSQL 15 would read the whole session.
# Counts the bytes here, so that messages beyond `max_bytes` are not sent. The extra row shows whether more messages follow. The
# separate bound on `seq` lets the index scan start where the page does.
HISTORY_PAGE: LiteralString = """
SELECT p.turn_id, p.seq, p.ordinal, p.role, p.content, p.created_at, p.found
  FROM (SELECT h.*, count(*) OVER () AS found, row_number() OVER newest AS place,
               sum(octet_length(h.content::text)) OVER newest AS bytes
          FROM (SELECT m.turn_id, t.seq, m.ordinal, m.role, m.content, m.created_at
                  FROM turns t JOIN messages m ON m.turn_id = t.id AND m.kind = 'message'
                 WHERE t.tenant_id = %(tenant)s AND t.session_id = %(session)s AND t.seq <= %(seq)s
                   AND (t.seq, m.ordinal) < (%(seq)s, %(ordinal)s) AND t.status = 'SUCCEEDED'
                 ORDER BY t.seq DESC FETCH FIRST (%(limit)s + 1) ROWS WITH TIES) h
        WINDOW newest AS (ORDER BY h.seq DESC, h.ordinal DESC ROWS UNBOUNDED PRECEDING)) p
 WHERE p.place <= %(limit)s AND (p.bytes <= %(max_bytes)s OR p.place = 1)
 ORDER BY p.seq DESC, p.ordinal DESC
"""

# The FETCH in the inner query also makes the planner convert each content to text only once.
HISTORY_AS_TEXT: LiteralString = """
SELECT h.turn_id, h.seq, h.ordinal, h.role, h.created_at,
       CASE WHEN octet_length(h.text) <= %(max_bytes)s THEN h.text END AS text
  FROM (SELECT m.turn_id, t.seq, m.ordinal, m.role, m.created_at, m.content::text AS text
          FROM turns t JOIN messages m ON m.turn_id = t.id AND m.kind = 'message'
         WHERE t.tenant_id = %(tenant)s AND t.session_id = %(session)s AND t.seq < %(before)s AND t.status = 'SUCCEEDED'
         ORDER BY t.seq DESC FETCH FIRST (%(limit)s) ROWS WITH TIES) h
 ORDER BY h.seq DESC, h.ordinal DESC LIMIT %(limit)s
"""

END_OF_SESSION = 2**62
"""Above every `seq`."""
UNBOUNDED = 2**62
"""More bytes than any history has."""

VERSION: LiteralString = f"""
SELECT v.seq, v.claim_id
  FROM sessions s LEFT JOIN LATERAL ({LAST_ANSWERED.format(of="s", before="%(before)s")}) v ON true
 WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s
"""


async def read_version(database: Database, tenant_id: str, session_id: str) -> HistoryVersion | None:
    """The present version of the session's history; None if the tenant has no such session."""
    parameters = {"tenant": tenant_id, "session": session_id, "before": END_OF_SESSION}
    rows = await database.fetch(VERSION, parameters)
    if not rows:
        return None
    return EMPTY_HISTORY if rows[0]["seq"] is None else HistoryVersion(**rows[0])


async def read_history(
    database: Database, tenant_id: str, session_id: str, *, limit: int, before_seq: int = END_OF_SESSION
) -> list[Message]:
    """The last `limit` messages of the session's SUCCEEDED turns before `before_seq`, oldest first.

    Raises ContentsUnreadableError, as the other reads here do.
    """
    messages, _ = await read_history_page(
        database, tenant_id, session_id, limit=limit, before=(before_seq, 0), max_bytes=UNBOUNDED
    )
    return messages


async def read_history_page(
    database: Database, tenant_id: str, session_id: str, *, limit: int, before: tuple[int, int], max_bytes: int
) -> tuple[list[Message], bool]:
    """The last messages before the place `before` (`seq`, ordinal), oldest first, and whether there are any before them. At most
    `limit` messages and `max_bytes` of JSON; a single message may be larger."""
    parameters = history_page_parameters(tenant_id, session_id, limit=limit, before=before, max_bytes=max_bytes)
    return open_history_page(await database.fetch(HISTORY_PAGE, parameters), database.contents, tenant_id, session_id)


def history_page_parameters(
    tenant_id: str, session_id: str, *, limit: int, before: tuple[int, int], max_bytes: int
) -> dict[str, Any]:
    """Of HISTORY_PAGE."""
    seq, ordinal = before
    return {
        "tenant": tenant_id,
        "session": session_id,
        "seq": seq,
        "ordinal": ordinal,
        "limit": limit,
        "max_bytes": max_bytes,
    }


def open_history_page(
    rows: Sequence[DictRow], contents: Contents, tenant_id: str, session_id: str
) -> tuple[list[Message], bool]:
    """What `read_history_page` returns, from the rows of HISTORY_PAGE."""
    more = bool(rows) and rows[0]["found"] > len(rows)
    return [
        Message(
            turn_id=row["turn_id"],
            seq=row["seq"],
            ordinal=row["ordinal"],
            role=row["role"],
            content=open_message(contents, row["content"], tenant_id, session_id, row["turn_id"], row["role"]),
            created_at=row["created_at"],
        )
        for row in reversed(rows)
    ], more


async def read_history_as_text(
    database: Database, tenant_id: str, session_id: str, *, limit: int, before_seq: int, max_bytes: int
) -> list[StoredMessage]:
    """Like `read_history`, newest first, with each content as JSON text. The text is None if it has more than
    `max_bytes`."""
    parameters = {
        "tenant": tenant_id,
        "session": session_id,
        "limit": limit,
        "before": before_seq,
        "max_bytes": max_bytes,
    }
    rows = await database.fetch(HISTORY_AS_TEXT, parameters)
    return [StoredMessage(**{**row, "text": _open_text(database.contents, row, tenant_id, session_id)}) for row in rows]


def _open_text(contents: Contents, row: DictRow, tenant_id: str, session_id: str) -> str | None:
    text = row["text"]
    if text is None or is_reserved_session(session_id):
        # The input of a compensation has sealed parts. Its session has one turn, and no history for a cache.
        return None
    place = Place(tenant_id, session_id, row["turn_id"], message_column(row["role"]))
    return contents.open_json_text(text, place)
