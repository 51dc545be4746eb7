"""Turns in the archive, as they are read there: by their ids, when the table has no such turn.

A row of the archive holds the rows of other tables as JSON, and becomes rows of them again as it is read. So what a reader gets
is of the same shape from both, with an empty column where the table has got one since.
"""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turns.database import Database

OF_TURN: LiteralString = """(
    SELECT a.* FROM archived_turns a
     WHERE a.id = %(id)s AND NOT EXISTS (SELECT FROM turns n WHERE n.id = %(id)s) ORDER BY a.ended_at DESC LIMIT 1) a"""
"""The turn `%(id)s` in the archive, unless its id has come back since: what a client has chosen it may choose again."""

READ_ARCHIVED: LiteralString = """
SELECT DISTINCT ON (a.id) t.*,
       (SELECT m.content FROM jsonb_populate_recordset(NULL::messages, a.messages) m
         WHERE m.role = 'assistant' AND m.kind = 'message' ORDER BY m.ordinal DESC LIMIT 1) AS output,
       (SELECT jsonb_build_object('tries', w.tries, 'delivered_at', w.delivered_at, 'next_try_at', w.due_at, 'error', w.error)
          FROM jsonb_populate_recordset(NULL::webhooks, a.webhooks) w WHERE w.generation = t.generation) AS webhook
  FROM archived_turns a CROSS JOIN LATERAL jsonb_populate_record(NULL::turns, a.turn) t
 WHERE a.id = ANY (%(ids)s::uuid[]) ORDER BY a.id, a.ended_at DESC
"""

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
"""Both, for whoever looks for turns by trace, by parent or by id, which each has an index for."""


async def read_archived(database: Database, turn_ids: Sequence[UUID]) -> dict[UUID, DictRow]:
    """Those of these turns that are in the archive: the columns of `turns`, `output` and `webhook`."""
    rows = await database.fetch(READ_ARCHIVED, {"ids": list(turn_ids)}) if turn_ids else []
    return {row["id"]: row for row in rows}
