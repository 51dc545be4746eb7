"""The facts about turns that may wait (`turnstile why`, `turnstile sessions --stuck`): three round trips for any number of turns,
and a fourth one half a second later if one of their rows is locked.

Turns, their sessions' heads and their last attempts are found by key. RUNNING turns are counted over the index of RUNNING turns,
which has as many as there are slots. Older turns are counted over the index `turns_waiting`, MAX_OLDER_TURNS for each turn.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS, by_key, off_index
from turnstile.ops.why.wait_facts import (
    MAX_OLDER_TURNS,
    LastAttempt,
    OpenChild,
    SeenErasure,
    SeenHalt,
    SeenPause,
    SeenQueue,
    SeenRowLock,
    SeenTurn,
    SeenWorker,
    WaitFacts,
)
from turnstile.queries.opened_record import open_record
from turnstile.sealing.contents import Contents
from turnstile.sealing.place import ERROR, Place
from turnstile.statements.paused_queues import READ_PAUSED
from turnstile.statements.read_claims import HAND_BACKS
from turnstile.statements.session_head import IN_INDEX_ORDER, OPEN_HEAD
from turnstile.statements.worker_registry import ALIVE
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

# The turns in question and their heads. The last attempt is that of the highest fence: an attempt that cost nothing leaves its
# number to the next one.
TURNS: LiteralString = f"""
WITH asked AS MATERIALIZED (
    SELECT t.id, h.id AS head_id
      FROM unnest(%(ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")}
      LEFT JOIN LATERAL ({OPEN_HEAD.format(of="t")}) h ON true
), named AS MATERIALIZED (
    SELECT a.id, a.head_id FROM asked a UNION SELECT a.head_id, a.head_id FROM asked a WHERE a.head_id IS NOT NULL
)
SELECT n.head_id, now() AS at, t.*, {HAND_BACKS} AS hand_backs,
       (SELECT coalesce(json_agg(json_build_object('id', c.id, 'session_id', c.session_id, 'status', c.status)
                                 ORDER BY c.id), '[]')
          FROM turns c WHERE c.id = ANY (t.joining) AND {off_index("c.status")} IN ('PENDING', 'RUNNING')) AS open_children,
       a.outcome AS last_outcome, a.error_class AS last_error_class, a.error AS last_error,
       f.id AS halt_id, f.error_class AS halt_error_class, f.error AS halt_error, f.finished_at AS halted_at,
       e.id AS erasure_id, e.requested_by AS erased_by, e.requested_at AS erased_since
  FROM named n JOIN turns t ON {by_key("t.id", "n.id")}
  LEFT JOIN LATERAL (
      SELECT a.* FROM turn_attempts a
       WHERE a.turn_id = t.id AND a.generation = t.generation ORDER BY a.fence DESC LIMIT 1) a ON true
  LEFT JOIN sessions s ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id
  LEFT JOIN LATERAL (SELECT f.* FROM turns f WHERE {by_key("f.id", "s.halted_by")} LIMIT 1) f ON true
  LEFT JOIN LATERAL (SELECT e.* FROM erasures e WHERE {by_key("e.id", "s.halted_by")} LIMIT 1) e ON true
"""

WORKERS: LiteralString = f"""
SELECT w.queue, w.worker_id, w.host, w.pid, w.slots, w.busy, w.draining, w.blocked_for_seconds, w.blocked_by, w.seen_at,
       {ALIVE} AS alive
  FROM workers w
 WHERE w.queue = ANY (%(queues)s::text[]) AND w.seen_at > now() - interval '1 day' ORDER BY w.worker_id
"""

RUNNING: LiteralString = """
SELECT r.worker_id, r.tenant_id, count(*) AS turns, max(r.crashes) AS crashes FROM turns r
 WHERE r.status = 'RUNNING' AND r.queue = ANY (%(queues)s::text[]) GROUP BY r.worker_id, r.tenant_id
"""

# The predicate of the index `turns_waiting`.
OLDER: LiteralString = f"""
SELECT w.id, (
    SELECT count(*) FROM (
        SELECT FROM turns t
         WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue = w.queue AND coalesce(t.execute_at, t.created_at) <= now()
           AND coalesce(t.execute_at, t.created_at) < w.since
         ORDER BY coalesce(t.execute_at, t.created_at) LIMIT {MAX_OLDER_TURNS}) o) AS older_turn_count
  FROM unnest(%(ids)s::uuid[], %(due_queues)s::text[], %(sinces)s::timestamptz[]) w (id, queue, since)
"""

MOMENT_SECONDS = 0.5
"""The product's own transactions usually lock a row for less."""

# `xmax` of a row is the transaction that has locked or changed it last, and each open transaction has a lock on its own id. That
# names the owner of a row lock for which nobody waits, and takes no lock itself. Several owners at once have an id in common,
# which does not belong to a transaction: they are not found.
ROW_LOCKS: LiteralString = f"""
SELECT r.id, l.pid, l.virtualtransaction AS transaction, a.usename AS user_name, a.application_name AS application,
       a.xact_start AS since
  FROM (
    SELECT t.id, t.xmax AS xid FROM unnest(%(ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")}
    UNION ALL
    SELECT t.id, s.xmax FROM unnest(%(session_ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")}
      JOIN sessions s ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id) r
  JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = r.xid
  JOIN pg_stat_activity a ON a.pid = l.pid
"""

# The index of a session's turns has those without a `seq`, too: all scheduled ones of the session are read.
TURN_OF_SESSION: LiteralString = f"""
SELECT coalesce(h.id, f.id, CASE WHEN e.id IS NULL THEN coalesce(n.id, l.id) END) AS turn_id,
       e.id AS erasure_id, e.requested_by AS erased_by, e.requested_at AS erased_since
  FROM sessions s
  LEFT JOIN LATERAL ({OPEN_HEAD.format(of="s")}) h ON true
  LEFT JOIN LATERAL (SELECT f.id FROM turns f WHERE {by_key("f.id", "s.halted_by")} LIMIT 1) f ON true
  LEFT JOIN LATERAL (SELECT e.* FROM erasures e WHERE {by_key("e.id", "s.halted_by")} LIMIT 1) e ON true
  LEFT JOIN LATERAL (
      SELECT n.id FROM turns n
       WHERE n.tenant_id = s.tenant_id AND n.session_id = s.session_id AND n.seq IS NULL AND {off_index("n.status")} = 'PENDING'
       ORDER BY n.execute_at, n.id LIMIT 1) n ON true
  LEFT JOIN LATERAL (
      SELECT l.id FROM turns l
       WHERE l.tenant_id = s.tenant_id AND l.session_id = s.session_id AND l.seq IS NOT NULL
       ORDER BY l.seq DESC LIMIT 1) l ON true
 WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s
"""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session of the tenant."""

    turn_id: UUID | None
    """The turn that says how the session stands. The first of these that it has: its head, the turn that halts it, its next
    scheduled turn, its last turn. None: all its turns are in the archive, or it is being erased and none of them is open."""
    erasure: SeenErasure | None


async def find_session(database: Database, tenant_id: str, session_id: str) -> KnownSession | None:
    """None: the tenant does not have this session. Raises DatabaseUnavailableError."""
    rows = await database.fetch(TURN_OF_SESSION, {"tenant": tenant_id, "session": session_id})
    return KnownSession(rows[0]["turn_id"], _erasure(rows[0])) if rows else None


async def read_wait_facts(database: Database, turn_ids: Sequence[UUID]) -> dict[UUID, WaitFacts]:
    """The facts about each of these turns, without the locks; archived and unknown turns are left out.

    Raises DatabaseUnavailableError.
    """
    contents = database.contents
    rows = {row["id"]: row for row in await database.fetch(TURNS, {"ids": list(turn_ids)})}
    turns = {turn_id: open_record(_turn(row, contents), contents) for turn_id, row in rows.items()}
    heads = {turn_id: turns.get(rows[turn_id]["head_id"]) for turn_id in turn_ids if turn_id in rows}
    waiting = {turn_id: head or turns[turn_id] for turn_id, head in heads.items()}
    locks = await _read_row_locks(database, list(waiting.values()))
    queues = await _read_queues(database, waiting, rows)
    return {
        turn_id: WaitFacts(
            at=rows[turn_id]["at"],
            turn=turns[turn_id],
            head=head,
            halt=_halt(rows[turn_id], contents),
            erasure=_erasure(rows[turn_id]),
            queue=queues[turn_id],
            row_lock=locks.get(waiting[turn_id].id),
        )
        for turn_id, head in heads.items()
    }


async def _read_row_locks(database: Database, turns: Sequence[SeenTurn]) -> dict[UUID, SeenRowLock]:
    """The locks of these turns' rows that outlast a moment."""
    # A claim locks the turn alone; a settle, and the placing of a scheduled turn, its session as well.
    sessions = [one.id for one in turns if one.status is TurnStatus.RUNNING or one.seq is None]
    asked = {"ids": [one.id for one in turns if one.status.is_open], "session_ids": sessions}
    found = await database.fetch(ROW_LOCKS, asked)
    if found:
        before = {row["transaction"] for row in found}
        await asyncio.sleep(MOMENT_SECONDS)
        found = [row for row in await database.fetch(ROW_LOCKS, asked) if row["transaction"] in before]
    fields = ("pid", "user_name", "application", "since")
    return {row["id"]: SeenRowLock(**{name: row[name] for name in fields}) for row in found}


async def _read_queues(
    database: Database, waiting: dict[UUID, SeenTurn], rows: dict[UUID, DictRow]
) -> dict[UUID, SeenQueue]:
    """The state of the queue of each turn in `waiting`, by the key in `waiting`."""
    due = {
        one.id: one
        for key, one in waiting.items()
        if one.status is TurnStatus.PENDING and one.due_since <= rows[key]["at"]
    }
    asked: dict[str, Any] = {
        "queues": sorted({one.queue for one in waiting.values()}),
        "ids": list(due),
        "due_queues": [one.queue for one in due.values()],
        "sinces": [one.due_since for one in due.values()],
    }
    _, paused, workers, running, older = await database.fetch_pipelined(
        [(IN_INDEX_ORDER, {}), (READ_PAUSED, {}), (WORKERS, asked), (RUNNING, asked), (OLDER, asked)]
    )
    pauses = {
        row["queue"]: SeenPause(by=row["paused_by"], since=row["paused_at"], reason=row["reason"]) for row in paused
    }
    older_turn_counts = {row["id"]: row["older_turn_count"] for row in older}
    claims: defaultdict[str, list[DictRow]] = defaultdict(list)
    for row in running:
        claims[row["worker_id"]].append(row)
    return {
        key: SeenQueue(
            pause=pauses.get(one.queue),
            workers=tuple(_worker(row, claims[row["worker_id"]], one) for row in workers if row["queue"] == one.queue),
            older_turn_count=older_turn_counts.get(one.id, 0),
        )
        for key, one in waiting.items()
    }


def _worker(row: DictRow, claims: list[DictRow], turn: SeenTurn) -> SeenWorker:
    return SeenWorker(
        **{name: value for name, value in row.items() if name != "queue"},
        running=sum(one["turns"] for one in claims),
        running_of_tenant=sum(one["turns"] for one in claims if one["tenant_id"] == turn.tenant_id),
        most_crashes=max((one["crashes"] for one in claims), default=0),
    )


def _turn(row: DictRow, contents: Contents) -> SeenTurn:
    open_children = tuple(
        OpenChild(id=UUID(child["id"]), session_id=child["session_id"], status=TurnStatus(child["status"]))
        for child in row["open_children"]
    )
    last_attempt = row["last_outcome"] and LastAttempt(
        outcome=AttemptOutcome(row["last_outcome"]),
        error_class=row["last_error_class"],
        error=contents.show(row["last_error"], Place(row["tenant_id"], row["session_id"], row["id"], ERROR)),
    )
    return SeenTurn.of({**row, "open_children": open_children, "last_attempt": last_attempt})


def _halt(row: DictRow, contents: Contents) -> SeenHalt | None:
    if row["halt_id"] is None:
        return None
    # A session is halted by one of its own turns.
    place = Place(row["tenant_id"], row["session_id"], row["halt_id"], ERROR)
    return SeenHalt(
        turn_id=row["halt_id"],
        error_class=row["halt_error_class"],
        error=contents.show(row["halt_error"], place),
        since=row["halted_at"],
    )


def _erasure(row: DictRow) -> SeenErasure | None:
    if row["erasure_id"] is None:
        return None
    return SeenErasure(erasure_id=row["erasure_id"], requested_by=row["erased_by"], since=row["erased_since"])
