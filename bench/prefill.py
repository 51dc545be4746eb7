"""A past for an empty database: turns that ended long ago, written straight into the tables; and what tables weigh."""

from typing import Any, LiteralString

import psycopg
from psycopg.rows import namedtuple_row

from bench.stage import Room
from bench.workloads import TENANT

# uuidv7: ids that rise with time, as the product's own do. Random ones would scatter every insert over the whole index.
ENDED_TURNS: LiteralString = """
INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, attempt, fence, started_at, finished_at, expires_at,
                   trace_id, span_id)
SELECT uuidv7(), %(tenant)s, %(prefix)s || n / %(each)s, n %% %(each)s + 1, %(queue)s, 'SUCCEEDED', 1,
       nextval('fence_seq'), now(), now(), now(), md5(n::text), left(md5(n::text), 16)
  FROM generate_series(0, %(count)s - 1) n
"""
THEIR_SESSIONS: LiteralString = """
INSERT INTO sessions (tenant_id, session_id, last_seq)
SELECT tenant_id, session_id, max(seq) FROM turns GROUP BY tenant_id, session_id
"""
THEIR_MESSAGES: LiteralString = """
INSERT INTO messages (turn_id, ordinal, role, content)
SELECT id, m.ordinal, m.role, '"something that was said, a line long, as people do"'
  FROM turns, (VALUES (0, 'user'), (1, 'assistant')) m (ordinal, role)
"""


WEIGHT: LiteralString = """
SELECT pg_table_size('turns') AS turns, pg_indexes_size('turns') AS indexes,
       pg_stat_get_dead_tuples('turns'::regclass) AS dead, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal
"""


def end_turns(room: Room, count: int, each: int, prefix: str = "past-") -> None:
    """Writes `count` ended turns, `each` to a session, with what was said in them."""
    parameters = {"tenant": TENANT, "prefix": prefix, "each": each, "queue": room.queue, "count": count}
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        # No transition brought them to where they are.
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        connection.execute(ENDED_TURNS, parameters)
        connection.execute(THEIR_SESSIONS)
        connection.execute(THEIR_MESSAGES)
        connection.execute("ALTER TABLE turns ENABLE TRIGGER ALL")
        connection.execute("VACUUM ANALYZE")


def weigh(room: Room) -> Any:
    """What the table of turns, its indexes and the log weigh, in bytes; and how many dead rows there are."""
    with psycopg.connect(room.database_url, autocommit=True, row_factory=namedtuple_row) as connection:
        return connection.execute(WEIGHT).fetchone()
