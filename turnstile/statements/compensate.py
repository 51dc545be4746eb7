"""Compensation: a turn that finally fails is followed by another turn, for which the worker runs the function in
`@handler(on_failed=...)`. SQL that claim and settle share.

The transaction that makes the turn FAILED inserts its compensation, so neither exists without the other. The claim does this in
the same statement; the settle does it in a second statement of the same commit, only if a turn is to fail. A compensation is a
turn like any other: it has its own session, retries, budgets, and a dead letter if it fails. It has no compensation itself. Its
id is derived from the failed turn's id, span and generation, so a redriven turn that fails again is compensated again. The span
id is random, and no other tenant knows it.
"""

from typing import LiteralString

from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.session_head import IS_FAILED

_ID: LiteralString = """
    (lpad(to_hex(floor(extract(epoch FROM t.created_at) * 1000)::bigint), 12, '0') || '7' || substr(digest.text, 1, 3)
     || '8' || substr(digest.text, 4, 15))::uuid
"""
"""Has the form of a UUIDv7, and sorts next to the failed turn's id. 72 bits of the digest."""

IS_BEING_COMPENSATED: LiteralString = f"""EXISTS (
    SELECT FROM turns c WHERE c.parent_turn_id = t.id AND c.kind = 'compensation' AND {off_index("c.tenant_id")} = t.tenant_id
                          AND {off_index("c.status")} IN ('PENDING', 'RUNNING') OFFSET 0)
"""
"""Whether a compensation of turn `t`, of any generation, has not ended: it would undo what a new run does."""

IS_OVERTAKEN: LiteralString = f"""(
    t.kind = 'compensation' AND EXISTS (
        SELECT FROM turns p WHERE p.id = t.parent_turn_id AND {off_index("p.tenant_id")} = t.tenant_id
                              AND {off_index("p.status")} <> 'FAILED' OFFSET 0))
"""
"""Whether turn `t` is a compensation whose turn was redriven or retried since, and may have succeeded; never NULL. Only a FAILED
turn is archived before its compensation."""

COMPENSATE: LiteralString = f"""
compensation AS MATERIALIZED (
    -- The last digit of a span id says whether its trace is sampled.
    SELECT {_ID} AS id, substr(digest.text, 17, 15) || right(t.span_id, 1) AS span_id, t.id AS parent_turn_id, t.tenant_id,
           t.session_id, t.queue, t.generation, t.trace_id, t.span_id AS parent_span_id, t.metadata, f.error_class, f.error
      FROM {{failed}} f JOIN turns t ON {by_key("t.id", "f.id")}
     CROSS JOIN LATERAL (
           SELECT encode(sha256(convert_to('compensation/' || t.id || '/' || t.span_id || '/' || t.generation, 'UTF8')),
                         'hex') AS text) digest
     WHERE f.status = 'FAILED' AND %(compensates)s AND t.kind = 'turn'
), compensation_session AS (
    INSERT INTO sessions (tenant_id, session_id, last_seq)
    SELECT tenant_id, 'compensation:' || id, 1 FROM compensation ORDER BY tenant_id, id ON CONFLICT DO NOTHING
), compensation_turn AS (
    INSERT INTO turns (id, tenant_id, session_id, seq, queue, kind, send_at, expires_at, metadata, trace_id, span_id,
                       parent_span_id, parent_turn_id)
    SELECT id, tenant_id, 'compensation:' || id, 1, queue, 'compensation', clock_timestamp(),
           clock_timestamp() + make_interval(secs => %(compensation_expires)s), metadata, trace_id, span_id, parent_span_id,
           parent_turn_id
      FROM compensation ORDER BY id ON CONFLICT DO NOTHING
    RETURNING id
), compensation_input AS (
    INSERT INTO messages (turn_id, ordinal, role, content)
    SELECT c.id, 0, 'user', json_build_object(
               'turn_id', c.parent_turn_id, 'session_id', c.session_id, 'generation', c.generation,
               'error_class', c.error_class, 'error', c.error,
               'inputs', (SELECT coalesce(json_agg(m.content ORDER BY m.ordinal), '[]') FROM messages m
                           WHERE m.turn_id = c.parent_turn_id AND m.role = 'user' AND m.kind = 'message'),
               'values', (SELECT coalesce(json_object_agg(v.key, v.value), json_build_object()) FROM turn_values v
                           WHERE v.turn_id = c.parent_turn_id))
      FROM compensation c JOIN compensation_turn USING (id)
)"""
"""CTEs; `{failed}` is a CTE with `id`, `status`, `error_class` and `error` of the turns that the statement has just ended."""

COMPENSATE_FAILED: LiteralString = f"""
WITH failed AS MATERIALIZED (
    SELECT t.id, t.status, t.error_class, t.error
      FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[]) f (id, fence) JOIN turns t ON {by_key("t.id", "f.id")}
     WHERE t.fence = f.fence AND {IS_FAILED}
), {COMPENSATE.format(failed="failed")}
SELECT id FROM compensation_turn
"""
"""For turns that were just settled, now or by an earlier call whose response was lost."""
