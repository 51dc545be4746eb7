"""The head of a session, its lowest open `seq`: the only turn that may be claimed. SQL that several statements share.

A statement reaches each row by its key, whatever statistics the planner has (ADR 0011):

- a row that another row names is found by the key: `by_key("t.id", "x.id")`, never `t.id = x.id`;
- no other condition on that row fits an index: `off_index("t.status") = ...`, never `t.status = ...`;
- it is sorted by what names it: `ORDER BY x.id`, never `ORDER BY t.id`.
"""

from typing import LiteralString

from turnstile.backends.postgres.database import Connection
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.turn.envelope import OutgoingMessage

IN_INDEX_ORDER: LiteralString = "SELECT set_config('enable_bitmapscan', 'off', true)"
"""For the rest of its pipeline. The planner has no statistics for the predicate of `turns_waiting`, and takes the due turns for
few: it would read and sort all of them to get the first thousand."""

OPEN_HEAD: LiteralString = """
    SELECT h.* FROM turns h
     WHERE h.tenant_id = {of}.tenant_id AND h.session_id = {of}.session_id
       AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')
     ORDER BY h.seq LIMIT 1
"""
"""`{of}` is a row with the session's `tenant_id` and `session_id`. A plain LIMIT 1: lock by id afterwards."""

DUE_OF: LiteralString = (
    off_index("{of}.status") + " = 'PENDING' AND ({of}.execute_at IS NULL OR {of}.execute_at <= now())"
)
"""Whether turn `{of}` is PENDING and may be claimed now."""

DUE: LiteralString = DUE_OF.format(of="t")
"""An UPDATE repeats it on its own target, even if a CTE has checked it before."""

WAKE_HEAD: LiteralString = f"""
WITH session AS (SELECT %(tenant)s::text AS tenant_id, %(session)s::text AS session_id),
head AS MATERIALIZED (
    SELECT h.id FROM session CROSS JOIN LATERAL ({OPEN_HEAD.format(of="session")}) h
     WHERE {DUE_OF.format(of="h")}
)
UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM head WHERE {by_key("t.id", "head.id")} AND {DUE}
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.trace_id, t.span_id
"""
"""Owes the session's head a wake-up now, if it is due: for a client or an operator that ends the former head. It waits for a
locked row and fails after `lock_timeout`; then nothing was ended, and the call may be repeated.

`sends` restarts at 0. The resend deadline doubles with each send, which is right for a turn that waits behind others. Once it is
the head, a lost wake-up must not wait for the long deadline that has built up.
"""

IS_RUNNING: LiteralString = f"{off_index('t.status')} = 'RUNNING'"
IS_FAILED: LiteralString = f"{off_index('t.status')} = 'FAILED'"
IS_PENDING: LiteralString = f"{off_index('t.status')} = 'PENDING'"
"""Expressions, like DUE: no partial index matches them."""


async def wake_head(connection: Connection, tenant_id: str, session_id: str) -> tuple[str, OutgoingMessage] | None:
    """Runs WAKE_HEAD; returns queue and wake-up of the head, to send. None if it is not due."""
    session = {"tenant": tenant_id, "session": session_id}
    head = await (await connection.execute(WAKE_HEAD, session)).fetchone()
    return None if head is None else (head["queue"], OutgoingMessage.about(head))
