"""The head of a session, its lowest open `seq`: the only turn that may be claimed. SQL that several statements share.

A statement reaches each row by its key, whatever the planner believes of the tables (ADR 0057):

- a row that another row names: `t.id = ANY (ARRAY[x.id])`, never `t.id = x.id`. A nested loop over the key is then the only plan;
- no other condition on that row fits an index: `('' || t.status) = ...`, never `t.status = ...`;
- it is sorted by what names it: `ORDER BY x.id`, never `ORDER BY t.id`.
"""

from typing import LiteralString

OPEN_HEAD: LiteralString = """
    SELECT h.* FROM turns h
     WHERE h.tenant_id = {of}.tenant_id AND h.session_id = {of}.session_id
       AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')
     ORDER BY h.seq LIMIT 1
"""
"""`{of}` is whatever has the session's `tenant_id` and `session_id`. A plain LIMIT 1: lock by id afterwards."""

DUE_OF: LiteralString = "('' || {of}.status) = 'PENDING' AND ({of}.execute_at IS NULL OR {of}.execute_at <= now())"
"""Whether turn `{of}` may be claimed by now."""

DUE: LiteralString = DUE_OF.format(of="t")
"""Repeated on the UPDATE's own target, whatever a CTE saw before it."""

_DUE_HEAD: LiteralString = f"""
WITH session AS (SELECT %(tenant)s::text AS tenant_id, %(session)s::text AS session_id),
head AS MATERIALIZED (
    SELECT h.id FROM session CROSS JOIN LATERAL ({OPEN_HEAD.format(of="session")}) h
     WHERE {DUE_OF.format(of="h")}
)
"""

WAKE_HEAD: LiteralString = f"""{_DUE_HEAD}
UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM head WHERE t.id = ANY (ARRAY[head.id]) AND {DUE}
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.trace_id, t.span_id
"""
"""Owes the session's head a wake-up now, if it is due: for a client or an operator who ends its head from outside. If the row is
locked it waits, and fails after `lock_timeout`; then nothing was ended, and the call may be repeated.

`sends` begins anew. The net doubles with each send, which is right for a turn that waits behind others; once it is the head,
a wake-up that got lost must not wait for the net that it had grown to meanwhile.
"""

WAKE_UNLOCKED_HEAD: LiteralString = f"""{_DUE_HEAD}, free AS MATERIALIZED (
    SELECT t.id FROM head JOIN turns t ON t.id = ANY (ARRAY[head.id]) WHERE {DUE} FOR NO KEY UPDATE OF t SKIP LOCKED
), woken AS (
    UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM free WHERE t.id = ANY (ARRAY[free.id]) AND {DUE}
)
SELECT EXISTS (SELECT FROM head) AND NOT EXISTS (SELECT FROM free) AS locked
"""
"""The same for a worker that leaves a session. It repeats the statement, so it must not wait for a row. `locked`: another
transaction has the due head's row, or has just claimed or ended it; look again.
"""

IS_RUNNING: LiteralString = "('' || t.status) = 'RUNNING'"
IS_FAILED: LiteralString = "('' || t.status) = 'FAILED'"
IS_PENDING: LiteralString = "('' || t.status) = 'PENDING'"
"""Expressions, like DUE: no partial index matches them. The planner takes a partial index for empty while hardly a row is RUNNING
or FAILED, and would read all of it for each id."""
