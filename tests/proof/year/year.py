"""Days of turns in a database of their own, the retention after each, and measurements now and then."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import uuid4

import psycopg

from tests.statements.plans.touched import execute, prepare
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.dev.stack.stack import LocalStack
from turnstile.ops.migration_run import apply
from turnstile.retention.delete_turns import KeptFor, TurnRetention
from turnstile.statements.claim import CLAIM

QUEUE = "turns"
TURNS_OF_A_SESSION = 5
VACUUM_EVERY_DAYS = 2
"""At a million turns a day and 90 days, autovacuum's 2 % of dead rows are reached about as often."""
CLAIMS = 20
TABLES = ("turns", "sessions", "messages", "turn_attempts")

# As submit, claim and settle write a turn: one insert and two updates, none of which can be HOT. A session at rest was last used
# more than an hour ago; here a day may be a second.
DAY: tuple[LiteralString, ...] = (
    """INSERT INTO sessions (tenant_id, session_id, last_seq, updated_at)
       SELECT 't' || g %% 10, 'd' || %(day)s || '-' || g, %(of)s, now() - interval '2 hours'
         FROM generate_series(1, %(turns)s / %(of)s) g""",
    """INSERT INTO turns (id, tenant_id, session_id, seq, queue, send_at, expires_at, trace_id, span_id)
       SELECT gen_random_uuid(), 't' || g %% 10, 'd' || %(day)s || '-' || g, n, 'turns', now() + interval '1 hour',
              now() + interval '1 hour', md5(g || '-' || n || '-' || %(day)s), '0123456789abcdef'
         FROM generate_series(1, %(turns)s / %(of)s) g CROSS JOIN generate_series(1, %(of)s) n""",
    """INSERT INTO messages (turn_id, ordinal, role, content)
       SELECT t.id, o, CASE o WHEN 0 THEN 'user' ELSE 'assistant' END, to_json(repeat('word ', 20))
         FROM turns t CROSS JOIN generate_series(0, 1) o WHERE t.status = 'PENDING'""",
)
OF_A_PLACE: tuple[LiteralString, ...] = (
    """UPDATE turns SET status = 'RUNNING', attempt = 1, fence = nextval('fence_seq'), claim_id = gen_random_uuid(),
              worker_id = 'w', send_at = NULL, lease_until = now() + interval '30 s', started_at = clock_timestamp(),
              first_started_at = clock_timestamp()
        WHERE status = 'PENDING' AND seq = %(n)s""",
    """INSERT INTO turn_attempts (turn_id, attempt, fence, generation, worker_id, due_at, started_at, outcome)
       SELECT id, 1, fence, 1, worker_id, queued_at, started_at, 'succeeded' FROM turns WHERE status = 'RUNNING'""",
    """UPDATE turns SET status = 'SUCCEEDED', lease_until = NULL, finished_at = clock_timestamp() WHERE status = 'RUNNING'""",
)
"""All turns with the same place in their sessions: one turn of a session runs at a time."""

WAITING: tuple[LiteralString, ...] = (
    "INSERT INTO sessions (tenant_id, session_id, last_seq) SELECT 't0', 'now-' || g, 1 FROM generate_series(1, %(many)s) g",
    """INSERT INTO turns (id, tenant_id, session_id, seq, queue, send_at, expires_at, trace_id, span_id)
       SELECT gen_random_uuid(), 't0', 'now-' || g, 1, 'turns', now() + interval '1 hour', now() + interval '1 hour',
              md5(g::text), 's'
         FROM generate_series(1, %(many)s) g""",
)

SIZES: LiteralString = """
SELECT (sum(pg_table_size(c.oid)) / 1e6)::float8, (sum(pg_indexes_size(c.oid)) / 1e6)::float8, sum(s.n_dead_tup)::bigint
  FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
 WHERE s.schemaname = 'turnstile' AND c.relname = ANY (%(tables)s)
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many days, and how many turns on each."""

    days: int
    turns_a_day: int
    retention_days: int
    every_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a day has left, once its old turns were deleted."""

    day: int
    turns: int
    sessions: int
    table_megabytes: float
    index_megabytes: float
    dead_rows: int
    claim_milliseconds: float
    """Median of single claims, rolled back."""
    claim_pages: int
    delete_milliseconds: float
    """Median of the retention's statements since the reading before."""
    longest_delete_milliseconds: float
    deleted_a_second: float

    @property
    def megabytes(self) -> float:
        return self.table_megabytes + self.index_megabytes


async def live_through(stack: LocalStack, plan: Plan, say: Callable[[str], None]) -> list[Reading]:
    """Lives the year in a new database of the stack; what was measured."""
    name = f"year_{uuid4().hex[:12]}"
    url = stack.postgres.create_database(name)
    apply(place := DatabasePlace(url))
    readings: list[Reading] = []
    began: list[float] = []
    deletes: list[tuple[float, int]] = []
    try:
        with psycopg.connect(conninfo(place, "year"), autocommit=True) as connection:
            async with Database(place, "year-relay", size=1, pinned=True) as database:
                for day in range(1, plan.days + 1):
                    began.append(time.monotonic())
                    write_day(connection, day, plan.turns_a_day)
                    if day > plan.retention_days:
                        deletes += await delete_old(database, began[day - plan.retention_days])
                    if day % VACUUM_EVERY_DAYS == 0:
                        connection.execute("VACUUM ANALYZE")
                    if day % plan.every_days == 0 or day == plan.days:
                        readings.append(measure(connection, place, day, deletes))
                        say(f"day {day}: {readings[-1].turns:,} turns, {readings[-1].megabytes:.0f} MB")
                        deletes = []
    finally:
        stack.postgres.drop_database(name)
    return readings


def write_day(connection: psycopg.Connection[Any], day: int, turns: int) -> None:
    """The turns of one day, from their submit to their end."""
    with connection.transaction():
        for statement in DAY:
            connection.execute(statement, {"day": day, "turns": turns, "of": TURNS_OF_A_SESSION})
    for place in range(1, TURNS_OF_A_SESSION + 1):
        for statement in OF_A_PLACE:
            connection.execute(statement, {"n": place})


async def delete_old(database: Database, kept_since: float) -> list[tuple[float, int]]:
    """Deletes what ended before the moment `kept_since` (monotonic); milliseconds and deleted turns of each statement."""
    found: list[tuple[float, int]] = []
    while True:
        await database.fetch("UPDATE retention SET due_at = clock_timestamp()", {})
        began = time.monotonic()
        # Its age grows with each statement: the moment stays.
        deleted = await TurnRetention(database, [KeptFor(QUEUE, began - kept_since)]).delete_some()
        if deleted is None:
            return found
        found.append((1000 * (time.monotonic() - began), deleted.turns))
        if not deleted.more:
            return found


def measure(
    connection: psycopg.Connection[Any], place: DatabasePlace, day: int, deletes: list[tuple[float, int]]
) -> Reading:
    """The sizes, and the cost of claims of turns that wait; nothing is left of them."""
    sizes = connection.execute(SIZES, {"tables": list(TABLES)}).fetchone()
    turns, sessions = (_count(connection, table) for table in ("turns", "sessions"))
    took, pages = time_claims(place)
    seconds = sum(milliseconds for milliseconds, _ in deletes) / 1000
    return Reading(
        day=day,
        turns=turns,
        sessions=sessions,
        table_megabytes=sizes[0] if sizes else 0.0,
        index_megabytes=sizes[1] if sizes else 0.0,
        dead_rows=sizes[2] if sizes else 0,
        claim_milliseconds=statistics.median(took),
        claim_pages=pages,
        delete_milliseconds=statistics.median(one for one, _ in deletes) if deletes else 0.0,
        longest_delete_milliseconds=max((one for one, _ in deletes), default=0.0),
        deleted_a_second=sum(turns for _, turns in deletes) / seconds if seconds else 0.0,
    )


def time_claims(place: DatabasePlace) -> tuple[list[float], int]:
    """Milliseconds of single claims with a pinned plan, and the pages of the last one."""
    took: list[float] = []
    pages = 0
    with psycopg.connect(conninfo(place, "year-worker", pinned=True)) as connection:
        for statement in WAITING:
            connection.execute(statement, {"many": CLAIMS})
        prepare(connection, "claim_one", CLAIM)
        for number in range(1, CLAIMS + 1):
            terms = {
                "tenants": ["t0"], "sessions": [f"now-{number}"], "claims": [uuid4()], "most_crashes": [9], "turns": [None],
                "queue": QUEUE,
                "worker": "w", "lease": 30.0, "max_crashes": 3, "halt": False, "compensates": False,
                "compensation_expires": 900.0,
            }  # fmt: skip
            began = time.perf_counter()
            pages = execute(connection, "claim_one", CLAIM, terms).pages
            took.append(1000 * (time.perf_counter() - began))
        connection.rollback()
    return took, pages


def _count(connection: psycopg.Connection[Any], table: LiteralString) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0
