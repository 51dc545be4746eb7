"""Reads the claimed turns: a separate statement in the same pipeline and commit as the claim or settle."""

from typing import LiteralString

from psycopg.rows import DictRow

from turnstile.sealing.contents import Contents
from turnstile.sealing.messages import try_message
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion, Message
from turnstile.turn.limits import MAX_HAND_BACKS

LAST_ANSWERED: LiteralString = """
    SELECT a.seq, a.claim_id FROM turns a
     WHERE a.tenant_id = {of}.tenant_id AND a.session_id = {of}.session_id AND a.seq < {before}
       AND a.status = 'SUCCEEDED'
     ORDER BY a.seq DESC LIMIT 1
"""
"""SQL of the version before the seq `{before}`. `{of}` is the alias that has the session's `tenant_id` and `session_id`.
It reads the index of sessions and seqs backwards: one row, and one more for each later turn that did not end SUCCEEDED."""

SAME_CLAIM_MICROSECONDS = 100
"""How far apart a claim may note `started_at` and `first_started_at`. Two claims of a turn are at least two round trips apart."""

FIRST_START: LiteralString = f"t.first_started_at >= t.started_at - interval '{SAME_CLAIM_MICROSECONDS} microseconds'"

# Attempts that cost nothing have the number of the one that follows. Newest first, and few: a turn may snooze without end.
HAND_BACKS: LiteralString = f"""
    (SELECT count(*) FROM (
         SELECT a.outcome, a.error, a.generation FROM turn_attempts a
          WHERE a.turn_id = t.id AND a.attempt = t.attempt ORDER BY a.fence DESC LIMIT {MAX_HAND_BACKS - 1}) a
      WHERE a.outcome = 'released' AND a.error IS NULL AND a.generation = t.generation)
"""
"""How many of the RUNNING turn `t`'s last attempts, MAX_HAND_BACKS - 1 at most, were handed back at a shutdown."""

# A separate statement after the claim: a join in the claim would miss input that was merged meanwhile.
READ_CLAIMS: LiteralString = f"""
SELECT t.claim_id, t.id, t.tenant_id, t.session_id, t.seq, t.queue, t.attempt, t.failures, t.crashes, t.max_attempts,
       t.generation, t.fence, t.timeout_seconds, t.metadata, t.trace_id, t.span_id, t.created_at,
       t.kind, t.parent_turn_id, t.parent_span_id,
       extract(epoch FROM t.expires_at - clock_timestamp())::float8 AS expires_in_seconds,
       extract(epoch FROM t.started_at - greatest(t.created_at, t.execute_at))::float8 AS queue_latency_seconds,
       CASE WHEN {FIRST_START}
            THEN greatest(0, extract(epoch FROM t.first_started_at - t.queued_at))::float8 END AS waited_seconds,
       CASE WHEN {FIRST_START} THEN 0 ELSE {HAND_BACKS} END AS hand_backs,
       said.contents, said.ordinals, said.times, v.seq AS version_seq, v.claim_id AS version_claim
  FROM unnest(%(tenants)s::text[], %(sessions)s::text[], %(claims)s::uuid[]) w (tenant_id, session_id, claim_id)
  CROSS JOIN LATERAL (
      -- Without LIMIT, a plan that was pinned while few turns were RUNNING reads the whole partial index for each batch.
      SELECT r.* FROM turns r
       WHERE r.tenant_id = w.tenant_id AND r.session_id = w.session_id AND r.status = 'RUNNING' LIMIT 1) t
  LEFT JOIN LATERAL (
      SELECT json_agg(m.content ORDER BY m.ordinal) AS contents, array_agg(m.ordinal ORDER BY m.ordinal) AS ordinals,
             array_agg(m.created_at ORDER BY m.ordinal) AS times
        FROM messages m WHERE m.turn_id = t.id AND m.role = 'user' AND m.kind = 'message') said ON true
  LEFT JOIN LATERAL ({LAST_ANSWERED.format(of="t", before="t.seq")}) v ON true
 WHERE t.claim_id = w.claim_id
"""


def claimed_turn(row: DictRow, contents: Contents) -> ClaimedTurn:
    """One row of READ_CLAIMS. An input that can't be opened is an Unopened: it must not fail the other claims of the batch."""
    fields = dict(row)
    stored, ordinals, times = (tuple(fields.pop(name) or ()) for name in ("contents", "ordinals", "times"))
    inputs = tuple(try_message(contents, one, row["tenant_id"], row["session_id"], row["id"], "user") for one in stored)
    seq, claim_id = fields.pop("version_seq"), fields.pop("version_claim")
    messages = (
        Message(turn_id=row["id"], seq=row["seq"], ordinal=ordinal, role="user", content=content, created_at=at)
        for content, ordinal, at in zip(inputs, ordinals, times, strict=True)
    )
    version = EMPTY_HISTORY if seq is None else HistoryVersion(seq, claim_id)
    return ClaimedTurn(**fields, inputs=inputs, messages=tuple(messages), history_version=version)
