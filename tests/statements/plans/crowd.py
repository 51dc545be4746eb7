"""A burst of turns, many in every index of `turns`, written without the triggers."""

from datetime import UTC, datetime
from hashlib import md5
from typing import LiteralString
from uuid import UUID

import psycopg

MANY = 1000
"""Turns of each kind. A statement that reads as many rows for ten turns did not reach them by key."""
FEW = 20
"""Parents that wait for their children. The relay's scan of joins reads all of them, by design; they are few."""

STAMP = datetime(2100, 1, 1, tzinfo=UTC)
"""The resend deadline of the waiting turns."""

QUEUE = "q"
ARRIVALS = "arrivals"
"""The queue of turns that their callers' transactions have committed: they have no place yet, and their sessions no row."""
TENANT = "t"
LONG = "long-1"
"""Where the name of a session ends that has MANY answered turns, and RUNNING and PENDING ones behind them."""

# One kind of turn per line, with the columns in which the kinds differ.
_KINDS: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, execute_at, lease_until, claim_id, worker_id, fence,
                   attempt, started_at, finished_at, expires_at, parent_turn_id, child_key, joining, join_policy, trace_id,
                   span_id, counts_from)
SELECT md5(%(wave)s || k.kind || n)::uuid, 't', %(wave)s || k.session || '-' || n, k.seq,
       CASE WHEN k.kind = 'arrived' THEN %(arrivals)s ELSE 'q' END, k.status, k.send_at,
       CASE WHEN k.kind = 'scheduled' THEN k.send_at END, k.lease_until,
       CASE WHEN k.status = 'RUNNING' THEN md5(%(wave)s || 'claim' || n)::uuid END, 'w',
       CASE WHEN k.status IN ('RUNNING', 'FAILED') THEN n ELSE 0 END, 1, now(),
       CASE WHEN k.status IN ('FAILED', 'SUCCEEDED') THEN now() END, now() + interval '1 hour',
       CASE WHEN k.parent IS NOT NULL THEN md5(%(wave)s || k.parent || n)::uuid END,
       CASE WHEN k.parent IS NOT NULL THEN 'key' END,
       CASE WHEN k.kind = 'joining' THEN ARRAY[md5(%(wave)s || 'child' || n)::uuid] END,
       CASE WHEN k.kind = 'joining' THEN 'all' END, md5(%(wave)s || k.kind || n), 'span',
       CASE WHEN k.kind = 'owed' THEN now() - interval '1 hour' END
  FROM (VALUES
           ('waiting', 'waiting', 1, 'PENDING', %(stamp)s, NULL, NULL),
           ('owed', 'owed', 1, 'PENDING', now() - interval '1 second', NULL, NULL),
           ('running', 'running', 1, 'RUNNING', NULL, now() + interval '1 minute', NULL),
           ('next', 'running', 2, 'PENDING', now() - interval '1 second', NULL, NULL),
           ('lost', 'lost', 1, 'RUNNING', now() - interval '1 second', now() - interval '1 minute', NULL),
           ('heir', 'lost', 2, 'PENDING', now() - interval '1 second', NULL, NULL),
           ('failed', 'failed', 1, 'FAILED', now() - interval '1 second', NULL, NULL),
           ('scheduled', 'scheduled', NULL, 'PENDING', now() - interval '1 second', NULL, NULL),
           ('arrived', 'arrived', NULL, 'PENDING', now() - interval '1 second', NULL, NULL),
           ('joining', 'joining', 1, 'PENDING', now() + interval '1 hour', NULL, NULL),
           ('child', 'child', 1, 'SUCCEEDED', NULL, NULL, 'joining'),
           ('grandchild', 'grandchild', 1, 'PENDING', now() + interval '1 minute', NULL, 'running')
       ) k (kind, session, seq, status, send_at, lease_until, parent)
 CROSS JOIN generate_series(1, %(many)s) n
 WHERE k.kind <> 'joining' OR n <= %(few)s
"""

# A long session, whose last turns are RUNNING and PENDING; and one turn of another tenant.
_LONG: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, lease_until, claim_id, worker_id, fence, attempt,
                   started_at, finished_at, expires_at, trace_id, span_id)
SELECT md5(%(wave)s || 'long' || n)::uuid, 't', %(wave)s || 'long-1', n, 'q', k.status,
       CASE WHEN k.status = 'PENDING' THEN now() END, CASE WHEN k.status = 'RUNNING' THEN now() + interval '1 minute' END,
       CASE WHEN k.status = 'RUNNING' THEN md5(%(wave)s || 'longclaim' || n)::uuid END, 'w', n, 1, now(),
       CASE WHEN k.status = 'SUCCEEDED' THEN now() END,
       now() + interval '1 hour', md5(%(wave)s || 'long' || n), 'span'
  FROM generate_series(1, %(many)s + 2) n CROSS JOIN LATERAL (
       SELECT CASE n WHEN %(many)s + 1 THEN 'RUNNING' WHEN %(many)s + 2 THEN 'PENDING' ELSE 'SUCCEEDED' END AS status) k
 UNION ALL
SELECT md5(%(wave)s || 'tenant')::uuid, 'u', %(wave)s || 'tenant-1', 1, 'q', 'PENDING', now(), NULL, NULL, NULL, 0, 0, NULL, NULL,
       now() + interval '1 hour', md5(%(wave)s || 'tenant'), 'span'
"""

_BESIDE: tuple[LiteralString, ...] = (
    """INSERT INTO sessions (tenant_id, session_id, last_seq)
       SELECT tenant_id, session_id, coalesce(max(seq), 0) FROM turns
        WHERE session_id LIKE %(wave)s || '%%' AND queue <> %(arrivals)s GROUP BY 1, 2""",
    """INSERT INTO messages (turn_id, ordinal, role, content)
       SELECT id, 0, 'user', '"said"' FROM turns WHERE session_id LIKE %(wave)s || '%%'""",
    """INSERT INTO turn_attempts (turn_id, attempt, fence, generation, outcome)
       SELECT id, 1, fence, 0, 'failed' FROM turns WHERE session_id LIKE %(wave)s || '%%' AND status = 'FAILED'""",
    """INSERT INTO turn_values (turn_id, key, value, fence)
       SELECT id, 'key', '1', fence FROM turns WHERE session_id LIKE %(wave)s || 'running%%'""",
    """INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer)
       SELECT tenant_id, 'key:' || session_id, 'x', id, 'null' FROM turns WHERE session_id LIKE %(wave)s || 'waiting%%'""",
    """INSERT INTO chosen_ids (tenant_id, turn_id, submitted_at)
       SELECT tenant_id, id, now() FROM turns WHERE session_id LIKE %(wave)s || 'waiting%%'""",
    """INSERT INTO memory_items (tenant_id, session_id, kind, key, content, priority, tags, version, write_id, fence, created_at,
                                 updated_at, expires_at)
       SELECT tenant_id, session_id, 'fact', 'key', '1', 0, '{}', 1, id, 1, now(), now(), now() + interval '1 hour'
         FROM turns WHERE session_id LIKE %(wave)s || 'running%%' AND seq = 1""",
    "INSERT INTO webhook_secrets (tenant_id, number) SELECT DISTINCT %(wave)s || session_id, 1 FROM turns",
    "INSERT INTO retention (queue) VALUES ('q') ON CONFLICT DO NOTHING",
    """INSERT INTO webhooks (turn_id, generation, tenant_id, url, event, due_at)
       SELECT id, 0, tenant_id, 'https://example.org', '{}', now() FROM turns WHERE session_id LIKE %(wave)s || 'failed%%'""",
)

_END_ALL: tuple[LiteralString, ...] = (
    """UPDATE turns SET status = 'SUCCEEDED', send_at = NULL, lease_until = NULL, joining = NULL, finished_at = now(),
              seq = coalesce(seq, 1)""",
    "UPDATE webhooks SET due_at = NULL, delivered_at = now()",
)


def arrive(connection: psycopg.Connection, wave: str) -> None:
    """Inserts MANY turns of each kind. `wave` distinguishes the rows of one burst from those of another."""
    connection.execute("SET session_replication_role = replica")
    how = {"wave": wave, "many": MANY, "few": FEW, "stamp": STAMP, "arrivals": ARRIVALS}
    connection.execute(_KINDS, how)
    connection.execute(_LONG, how)
    for statement in _BESIDE:
        connection.execute(statement, how)
    connection.execute("SELECT setval('fence_seq', %s)", [MANY])
    connection.execute("RESET session_replication_role")


def end_all(connection: psycopg.Connection) -> None:
    """Makes all turns SUCCEEDED."""
    connection.execute("SET session_replication_role = replica")
    for statement in _END_ALL:
        connection.execute(statement)
    connection.execute("RESET session_replication_role")


def turn_id(kind: str, number: int, wave: str = "burst") -> UUID:
    """The id of the `number`th turn of a kind."""
    return UUID(md5(f"{wave}{kind}{number}".encode(), usedforsecurity=False).hexdigest())
