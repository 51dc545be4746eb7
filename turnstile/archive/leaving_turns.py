"""What still needs an ended turn, and how a turn leaves the status table with its rows of the other tables.

SQL that the archive and the retention share."""

from typing import LiteralString

from turnstile.backends.postgres.sql_terms import by_key, off_index

DEAD_LETTER_DAYS = 15
"""One day more than SQS keeps a message: no dead letter outlives the row with its turn's outcome."""

IS_NEEDED: LiteralString = f"""(
    -- Its dead letter is owed, or may be on the queue, where the sweep and AWS's own redrive find it.
    t.send_at IS NOT NULL
    OR ((t.generation > 1 OR t.dead_lettered_at IS NOT NULL)
        AND greatest(t.finished_at, t.dead_lettered_at) > now() - interval '{DEAD_LETTER_DAYS} days')
    -- Its webhook is not delivered.
    OR EXISTS (SELECT FROM webhooks w WHERE w.turn_id = t.id AND {off_index("w.due_at")} IS NOT NULL OFFSET 0)
    -- Its parent is open, or may be redriven: it then joins this turn, or starts it again.
    OR EXISTS (SELECT FROM turns p WHERE p.id = t.parent_turn_id AND {off_index("p.tenant_id")} = t.tenant_id
                AND {off_index("p.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0)
    -- It was redriven and answered, and its compensation may be redriven (IS_OVERTAKEN).
    OR (t.status <> 'FAILED' AND EXISTS (
        SELECT FROM turns c WHERE c.parent_turn_id = t.id AND c.kind = 'compensation' AND {off_index("c.tenant_id")} = t.tenant_id
           AND {off_index("c.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0))
    -- It replaces a child of another session, which may be redriven (HAS_SUCCESSOR).
    OR (t.child_key IS NOT NULL AND EXISTS (
        SELECT FROM turns o WHERE o.parent_turn_id = t.parent_turn_id AND o.child_key = t.child_key
           AND {off_index("o.tenant_id")} = t.tenant_id AND {off_index("o.session_id")} <> t.session_id
           AND o.created_at < t.created_at
           AND {off_index("o.status")} NOT IN ('SUCCEEDED', 'CANCELED') OFFSET 0)))
"""
"""Whether something that may still happen needs the ended turn `t`, however old it is."""

ARCHIVE_GONE: LiteralString = """
    -- Without the NULL columns of the row, which are half of it. JSON of users keeps its own nulls.
    INSERT INTO archived_turns (id, tenant_id, session_id, queue, trace_id, parent_turn_id, ended_at, turn, messages, attempts,
                                recorded_values, webhooks)
    SELECT g.id, g.tenant_id, g.session_id, g.queue, g.trace_id, g.parent_turn_id, g.finished_at,
           (SELECT json_object_agg(key, value) FROM json_each(to_json(g)) WHERE json_typeof(value) <> 'null'),
           (SELECT coalesce(json_agg(m ORDER BY m.ordinal), '[]') FROM messages m WHERE m.turn_id = g.id),
           (SELECT coalesce(json_agg(json_strip_nulls(to_json(a)) ORDER BY a.fence), '[]')
              FROM turn_attempts a WHERE a.turn_id = g.id),
           (SELECT coalesce(json_agg(v ORDER BY v.created_at, v.key), '[]') FROM turn_values v WHERE v.turn_id = g.id),
           (SELECT coalesce(json_agg(w ORDER BY w.generation), '[]') FROM webhooks w WHERE w.turn_id = g.id)
      FROM gone g"""
"""Puts the turns of `gone`, the rows of `turns` that the statement deletes, into the archive."""

DELETE_ROWS: LiteralString = f"""messages_gone AS (
    DELETE FROM messages m USING gone g WHERE {by_key("m.turn_id", "g.id")}
), attempts_gone AS (
    DELETE FROM turn_attempts a USING gone g WHERE {by_key("a.turn_id", "g.id")}
), values_gone AS (
    DELETE FROM turn_values v USING gone g WHERE {by_key("v.turn_id", "g.id")}
), webhooks_gone AS (
    DELETE FROM webhooks w USING gone g WHERE {by_key("w.turn_id", "g.id")}
)"""
"""CTEs that delete what belongs to the turns of `gone` in the other tables, but for their traces, which outlive the archiving."""
