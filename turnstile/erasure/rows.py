"""The rows of an erasure, and what it deletes in Postgres. SQL; `erasure.eraser` executes it in order.

An erasure is a row that a relay goes on with until nothing is left, so it survives a crash at any point. While a session is
being erased, `sessions.halted_by` has the erasure's id: no turn of the session begins. A turn that is submitted meanwhile waits.
It has a higher `seq` than `up_to_seq`, stays, and is the first turn of a clean session.
"""

from typing import LiteralString

from turnstile.archive.leaving_turns import DELETE_ROWS
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.browser_tokens import LIFETIME_SECONDS

BATCH = 200
"""Turns that one statement deletes, and sessions of a tenant that one statement finds."""
AGAIN_SECONDS = 10.0
"""When an erasure is due again if its process died."""
LAST_WORDS_SECONDS = 5
"""How long after its end a turn is erased: by then its worker has written its last event, and its watchers know."""

OPEN: LiteralString = """
INSERT INTO erasures (id, tenant_id, session_id, requested_by)
SELECT gen_random_uuid(), %(tenant)s, %(session)s, %(requested_by)s
 WHERE %(session)s::text IS NULL
    OR EXISTS (SELECT FROM sessions s WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s)
    OR EXISTS (SELECT FROM archived_turns a WHERE a.tenant_id = %(tenant)s AND a.session_id = %(session)s)
    OR EXISTS (SELECT FROM memory_items m WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s)
ON CONFLICT DO NOTHING
"""
"""Nothing for a session that does not exist, or that is being erased."""

_IS_OPEN: LiteralString = """
e.tenant_id = %(tenant)s AND coalesce(e.session_id, '') = coalesce(%(session)s, '') AND e.finished_at IS NULL
"""

READ_OPEN: LiteralString = f"SELECT e.* FROM erasures e WHERE {_IS_OPEN}"

READ: LiteralString = "SELECT e.* FROM erasures e WHERE e.id = %(id)s"

# A compensation undoes what a turn did outside: it is not stopped, and erased once it has ended.
HALT: LiteralString = f"""
UPDATE sessions s SET halted_by = %(id)s, updated_at = clock_timestamp()
 WHERE {by_key("s.tenant_id", "%(tenant)s")} AND s.session_id = %(session)s AND s.session_id NOT LIKE 'compensation:%%'
"""
"""The caller has locked the session. No claim begins a turn of it from the commit on."""

BEGIN: LiteralString = f"""
UPDATE erasures e SET up_to_seq = coalesce((
       SELECT s.last_seq FROM sessions s WHERE {by_key("s.tenant_id", "%(tenant)s")} AND s.session_id = %(session)s), 0)
 WHERE e.id = %(id)s AND e.up_to_seq IS NULL
"""

_BEGIN_AGAIN: LiteralString = "UPDATE erasures e SET requested_at = clock_timestamp(), reached = NULL, up_to_seq = NULL"

# In this order, which is that of END_PART: two transactions that lock a part and its whole do not wait for each other.
EXTEND_PARTS: LiteralString = f"{_BEGIN_AGAIN} WHERE e.part_of = (SELECT e.id FROM erasures e WHERE {_IS_OPEN})"
EXTEND: LiteralString = f"{_BEGIN_AGAIN} WHERE {_IS_OPEN} RETURNING e.*"
"""An erasure that is under way was asked for again: it and its parts begin again, and cover what was submitted since."""

TAKE: LiteralString = f"""
UPDATE erasures e SET due_at = clock_timestamp() + make_interval(secs => {AGAIN_SECONDS})
 WHERE e.id = (SELECT d.id FROM erasures d WHERE d.finished_at IS NULL AND d.due_at <= clock_timestamp()
                 AND (%(only)s::uuid IS NULL OR d.id = %(only)s OR d.part_of = %(only)s)
                ORDER BY d.due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING e.*
"""

PUT_BACK: LiteralString = """
UPDATE erasures SET due_at = clock_timestamp() + make_interval(secs => %(after)s) WHERE id = %(id)s
"""

# The last line is for a turn that was redriven after the request: it has another `seq`.
_IS_ERASED: LiteralString = """
    t.tenant_id = %(tenant)s AND t.session_id = %(session)s
    AND (t.seq <= %(up_to)s OR t.created_at < %(requested_at)s
         AND (t.generation > 1 OR t.seq IS NULL AND t.status NOT IN ('PENDING', 'RUNNING')))
"""

# A RUNNING turn was asked to stop. Once its lease is over, its worker is dead or can't write any more: the row may go under it. A
# child stays until its open parent has seen how it ended.
_MAY_GO: LiteralString = f"""
    (CASE {off_index("t.status")} WHEN 'PENDING' THEN t.kind = 'turn'
          WHEN 'RUNNING' THEN t.lease_until < now() - interval '{LAST_WORDS_SECONDS} s'
          ELSE t.finished_at < now() - interval '{LAST_WORDS_SECONDS} s' END
     AND NOT EXISTS (SELECT FROM turns p WHERE p.id = t.parent_turn_id AND {off_index("p.tenant_id")} = t.tenant_id
                        AND {off_index("p.status")} IN ('PENDING', 'RUNNING') OFFSET 0))
"""

FIND: LiteralString = f"""
SELECT t.id, {_MAY_GO} AS may_go FROM turns t WHERE {_IS_ERASED} ORDER BY t.seq LIMIT {BATCH}
"""

_WITH_THEM: LiteralString = f"""traces_gone AS (
    DELETE FROM turn_traces r USING gone g WHERE {by_key("r.turn_id", "g.id")} AND r.tenant_id = g.tenant_id
), parts AS (
    -- The sessions that are named after a child or a compensation are parts of this one.
    INSERT INTO erasures (id, tenant_id, session_id, part_of, requested_by)
    SELECT gen_random_uuid(), k.tenant_id, k.session_id, %(root)s, %(requested_by)s FROM (
        SELECT c.tenant_id, c.session_id FROM gone g CROSS JOIN LATERAL (
            SELECT c.id, c.tenant_id, c.session_id FROM turns c WHERE c.parent_turn_id = g.id
               AND {off_index("c.tenant_id")} = g.tenant_id OFFSET 0) c
         WHERE c.session_id IN ('child:' || c.id, 'compensation:' || c.id)
         UNION
        SELECT a.tenant_id, a.session_id FROM gone g JOIN archived_turns a ON a.parent_turn_id = g.id
         WHERE a.tenant_id = g.tenant_id AND a.session_id IN ('child:' || a.id, 'compensation:' || a.id)) k
    ON CONFLICT DO NOTHING
), counted AS (
    UPDATE erasures e SET turns = e.turns + (SELECT count(*) FROM gone) WHERE e.id = %(id)s
)
SELECT count(*) AS gone FROM gone"""

ERASE_TURNS: LiteralString = f"""
WITH gone AS (
    DELETE FROM turns t WHERE t.id = ANY (%(ids)s::uuid[]) AND {_IS_ERASED} AND {_MAY_GO} RETURNING t.*
), {DELETE_ROWS}, {_WITH_THEM}
"""

FIND_ARCHIVED: LiteralString = f"""
SELECT a.id FROM archived_turns a WHERE a.tenant_id = %(tenant)s AND a.session_id = %(session)s LIMIT {BATCH}
"""

ERASE_ARCHIVED: LiteralString = f"""
WITH gone AS (
    DELETE FROM archived_turns a
     WHERE a.id = ANY (%(ids)s::uuid[]) AND a.tenant_id = %(tenant)s AND a.session_id = %(session)s
    RETURNING a.id, a.tenant_id
), {_WITH_THEM}
"""

# Durable memory: no turn of the session has begun since the halt, so all of it belongs to what is erased.
ERASE_MEMORY: LiteralString = "DELETE FROM memory_items m WHERE m.tenant_id = %(tenant)s AND m.session_id = %(session)s"

END_SESSION: LiteralString = f"""
WITH whole AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id FROM sessions s
     WHERE {by_key("s.tenant_id", "%(tenant)s")} AND s.session_id = %(session)s
       AND NOT EXISTS (SELECT FROM turns t WHERE t.tenant_id = s.tenant_id AND t.session_id = s.session_id OFFSET 0)
), gone AS (
    DELETE FROM sessions s USING whole w WHERE {by_key("s.tenant_id", "w.tenant_id")} AND s.session_id = w.session_id
)
UPDATE sessions s SET halted_by = NULL, updated_at = clock_timestamp()
 WHERE {by_key("s.tenant_id", "%(tenant)s")} AND s.session_id = %(session)s AND s.halted_by = %(id)s
   AND NOT EXISTS (SELECT FROM whole)
"""
"""The caller has locked the session: no turn of it is submitted meanwhile."""

END_PART: LiteralString = """
WITH ended AS (
    DELETE FROM erasures e WHERE e.id = %(id)s AND e.requested_at = %(requested_at)s RETURNING e.part_of, e.turns
)
UPDATE erasures r SET turns = r.turns + ended.turns FROM ended WHERE r.id = ended.part_of RETURNING ended.turns
"""

END: LiteralString = """
UPDATE erasures e SET finished_at = clock_timestamp()
 WHERE e.id = %(id)s AND e.requested_at = %(requested_at)s AND e.finished_at IS NULL
   AND NOT EXISTS (SELECT FROM erasures p WHERE p.part_of = e.id)
   AND NOT EXISTS (SELECT FROM erasures o WHERE e.session_id IS NULL AND o.tenant_id = e.tenant_id AND o.id <> e.id
                      AND o.finished_at IS NULL)
RETURNING e.turns
"""

# From one session to the next one by its name. Their number has no bound. Who asks again meanwhile has it begin with the first.
FIND_SESSIONS: LiteralString = f"""
WITH next AS MATERIALIZED (
    SELECT n.session_id FROM (
       (SELECT s.session_id FROM sessions s
         WHERE s.tenant_id = %(tenant)s AND s.session_id > %(reached)s AND s.created_at < %(requested_at)s
         ORDER BY s.session_id LIMIT {BATCH})
        UNION
       (SELECT DISTINCT a.session_id FROM archived_turns a
         WHERE a.tenant_id = %(tenant)s AND a.session_id > %(reached)s ORDER BY a.session_id LIMIT {BATCH})
        UNION
       (SELECT DISTINCT m.session_id FROM memory_items m
         WHERE m.tenant_id = %(tenant)s AND m.session_id > %(reached)s ORDER BY m.session_id LIMIT {BATCH})) n
     ORDER BY n.session_id LIMIT {BATCH}
), parts AS (
    INSERT INTO erasures (id, tenant_id, session_id, part_of, requested_by)
    SELECT gen_random_uuid(), %(tenant)s, n.session_id, %(id)s, %(requested_by)s FROM next n ON CONFLICT DO NOTHING
), noted AS (
    UPDATE erasures e SET reached = n.session_id FROM (SELECT max(session_id) AS session_id FROM next) n
     WHERE e.id = %(id)s AND e.requested_at = %(requested_at)s AND n.session_id IS NOT NULL
)
SELECT count(*) AS found FROM next
"""

# With its keys the tenant would go on submitting. A key that is made after the request is of a new beginning, and stays.
REVOKE_KEYS: LiteralString = """
UPDATE api_keys SET revoked_at = clock_timestamp(), revoked_by = %(requested_by)s
 WHERE tenant_id = %(tenant)s AND created_at < %(requested_at)s AND revoked_at IS NULL
RETURNING key_id
"""

_BEFORE_IT: LiteralString = "tenant_id = %(tenant)s AND created_at < %(requested_at)s"

# A token's row has only the time of its end.
_TOKEN_BEFORE_IT: LiteralString = f"""
tenant_id = %(tenant)s AND expires_at < %(requested_at)s::timestamptz + interval '{LIFETIME_SECONDS} s'
"""

ERASE_BESIDE_SESSIONS: tuple[LiteralString, ...] = (
    f"DELETE FROM submissions WHERE {_BEFORE_IT}",
    f"DELETE FROM chosen_ids WHERE {_BEFORE_IT}",
    f"DELETE FROM browser_tokens WHERE {_TOKEN_BEFORE_IT}",
    f"DELETE FROM api_keys WHERE {_BEFORE_IT}",
)
"""Of a tenant alone. When a session is erased, its `submissions` and `chosen_ids` stay until TURNSTILE_IDEMPOTENCY_DAYS are over:
they have no content, and without them a repeat of a submit that is still under way would bring back what was erased."""
