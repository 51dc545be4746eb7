"""Reads turns from the archive: by tenant and id, if `turns` has no such turn of the tenant.

Never by the id alone: clients choose ids, and an id in the archive is free again, for every tenant. A client that knew the id of
another tenant's turn could otherwise submit a turn under that id, and would hide the other turn.

A row of the archive contains the rows of other tables as JSON. A read turns them into rows of those tables again, so a reader
gets the same shape from both. A column that a table got later is empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database

_IN_TABLE: LiteralString = "EXISTS (SELECT FROM turns n WHERE n.id = %(id)s AND n.tenant_id = %(tenant)s)"

# From the archive only if `turns` does not have the turn by now: a client may choose the same id again.
IN_EITHER: LiteralString = f"""
SELECT r.*, n.session_id FROM {{table}} r JOIN turns n ON n.id = r.turn_id
 WHERE r.turn_id = %(id)s AND n.tenant_id = %(tenant)s
UNION ALL
SELECT r.*, a.session_id FROM (
    SELECT a.* FROM archived_turns a
     WHERE a.id = %(id)s AND a.tenant_id = %(tenant)s AND NOT {_IN_TABLE} ORDER BY a.ended_at DESC LIMIT 1) a
 CROSS JOIN LATERAL json_populate_recordset(NULL::{{table}}, a.{{archived}}) r
 ORDER BY {{order}}
"""
"""The rows of the turn `%(id)s` of `%(tenant)s` in another table, with its session; the archive has them in `{archived}`."""

# One lookup for each: of an id that was used often, only the last turn is read.
_NAMED: LiteralString = """unnest(%(tenants)s::text[], %(ids)s::uuid[]) w (tenant_id, id)
 CROSS JOIN LATERAL (
       SELECT n.* FROM archived_turns n WHERE n.id = w.id AND n.tenant_id = w.tenant_id ORDER BY n.ended_at DESC LIMIT 1) a"""

WITH_MESSAGES: LiteralString = """t.*,
       (SELECT json_agg(m.content ORDER BY m.ordinal) FROM {messages} m
         WHERE m.role = 'user' AND m.kind = 'message') AS inputs,
       (SELECT m.content FROM {messages} m
         WHERE m.role = 'assistant' AND m.kind = 'message' ORDER BY m.ordinal DESC LIMIT 1) AS output,
       (SELECT json_build_object('tries', w.tries, 'delivered_at', w.delivered_at, 'next_try_at', w.due_at, 'error', w.error)
          FROM {webhooks} w WHERE w.generation = t.generation) AS webhook"""
"""The columns of turn `t`, its input, reply and webhook. `{messages}` and `{webhooks}` are its rows of those tables."""

READ_ARCHIVED: LiteralString = f"""
SELECT {
    WITH_MESSAGES.format(
        messages="json_populate_recordset(NULL::messages, a.messages)",
        webhooks="json_populate_recordset(NULL::webhooks, a.webhooks)",
    )
}
  FROM {_NAMED} CROSS JOIN LATERAL json_populate_record(NULL::turns, a.turn) t
"""
READ_ARCHIVED_STANDINGS: LiteralString = f"""
SELECT a.id, a.tenant_id, a.session_id, a.turn ->> 'status' AS status, (a.turn ->> 'attempt')::integer AS attempt,
       (a.turn ->> 'fence')::bigint AS fence, a.trace_id
  FROM {_NAMED}
"""
"""The columns for a client that waits for a turn. Without replies: a query may ask for a thousand turns, with a megabyte each."""

EVERY_TURN: LiteralString = """(
    SELECT id, tenant_id, session_id, seq, queue, status, generation, attempt, trace_id, span_id, parent_span_id, parent_turn_id,
           created_at, started_at, finished_at, kind, child_key, joining, join_policy
      FROM turns
     UNION ALL
    SELECT id, tenant_id, session_id, (turn ->> 'seq')::bigint, turn ->> 'queue', turn ->> 'status',
           (turn ->> 'generation')::integer, (turn ->> 'attempt')::integer, trace_id, turn ->> 'span_id',
           turn ->> 'parent_span_id', parent_turn_id, (turn ->> 'created_at')::timestamptz,
           (turn ->> 'started_at')::timestamptz, ended_at, turn ->> 'kind', turn ->> 'child_key', NULL::uuid[], NULL::text
      FROM archived_turns)"""
"""The turns of both tables, for queries by trace, by parent or by id: both tables have indexes for these."""


@dataclass(frozen=True, slots=True)
class TurnKey:
    """The key by which a client names a turn."""

    tenant_id: str
    id: UUID


async def read_archived(
    database: Database, statement: LiteralString, wanted: Iterable[TurnKey]
) -> dict[TurnKey, DictRow]:
    """Those of the turns that are in the archive. `statement` is READ_ARCHIVED or READ_ARCHIVED_STANDINGS."""
    # Each key once: a reply may be a megabyte, and many clients may wait for the same turn.
    keys = list(dict.fromkeys(wanted))
    given = {"tenants": [key.tenant_id for key in keys], "ids": [key.id for key in keys]}
    rows = await database.fetch(statement, given) if keys else []
    return {TurnKey(row["tenant_id"], row["id"]): row for row in rows}
