"""A past for an empty database: turns that ended long ago, written straight into the tables; and what tables weigh."""

from dataclasses import dataclass
from typing import LiteralString

import psycopg

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


@dataclass(frozen=True, slots=True)
class Weight:
    """What the tables and the log of Postgres weigh, in bytes; and how many dead rows of turns there are."""

    turns: int
    indexes: int
    dead: int
    wal: int


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


def weigh(room: Room) -> Weight:
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT pg_table_size('turns'), pg_indexes_size('turns'), pg_stat_get_dead_tuples('turns'::regclass),"
            " pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
        ).fetchone()
        if row is None:
            raise AssertionError("a SELECT without FROM has a row")
        return Weight(*map(int, row))
