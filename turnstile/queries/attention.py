"""What needs an operator, according to the tables: new final failures, halted sessions, and the known dead letters.

An alert must not depend on one log line. A worker logs a failure after the commit: if it is killed between the two, it logs
nothing, and a log driver may drop a line. The tables stay correct, and their values are logged again each minute: a failure for
some minutes, a halted session for as long as it is halted, the oldest FAILED turn until an operator has dealt with it.
`letters` is how many messages the DLQ should have. If SQS counts more, the DLQ has messages that no FAILED turn explains:
malformed ones, and those that SQS moved there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.archive.leaving_turns import DEAD_LETTER_DAYS
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS
from turnstile.statements.start_children import HAS_SUCCESSOR

REDRIVE_GRACE_MINUTES = 10
"""How long after its end a redrive still explains the letters of its turns: SQS counts approximately, and with a
delay."""

MOST = 10_000
"""How many FAILED turns of a queue are read at most: those that failed last."""

# A turn that halts its session is in `halted_lately` alone: one failure raises one alarm.
# The index `turns_failed_at` has the queue and the end. Its predicate is an expression that only this statement uses, so no
# other statement can use the index. A halted session's turn is looked up by its id, whatever the statistics are.
# A letter is on the DLQ from when it was sent until SQS drops it. The letters of a redrive are there until its sweep, at its
# end. Turns that an operator has given up are not in the index, and their letters are recorded as those of a redrive are.
# `letters` is NULL if there may be more than were read: a number that is too small would raise a false alert.
# A turn waits for an operator from its dead letter until a redrive. A child whose parent has started it again can't be redriven.
ATTENTION: LiteralString = f"""
WITH halted AS MATERIALIZED (
    SELECT h.queue, count(*) AS sessions,
           count(*) FILTER (WHERE h.finished_at > now() - make_interval(secs => %(lately)s)) AS lately,
           extract(epoch FROM now() - min(h.finished_at))::float8 AS seconds
      FROM (SELECT s.tenant_id, s.session_id, s.halted_by FROM sessions s WHERE s.halted_by IS NOT NULL OFFSET 0) s
     CROSS JOIN LATERAL (SELECT h.* FROM turns h WHERE h.id = s.halted_by LIMIT 1) h
     WHERE h.tenant_id = s.tenant_id AND h.session_id = s.session_id AND h.status = 'FAILED'
     GROUP BY h.queue
), redriven AS MATERIALIZED (
    SELECT r.queue, cardinality(r.turn_ids) AS letters
      FROM (SELECT * FROM redrives r WHERE NOT r.filter ? 'move' ORDER BY id DESC LIMIT 100) r
     WHERE r.started_at > now() - interval '1 day'
       AND (r.finished_at IS NULL OR r.finished_at > now() - interval '{REDRIVE_GRACE_MINUTES} minutes')
)
SELECT q.name AS queue, greatest(0, f.lately - coalesce(h.lately, 0)) AS failed_lately,
       coalesce(h.sessions, 0) AS halted, coalesce(h.lately, 0) AS halted_lately,
       greatest(0, coalesce(h.seconds, 0))::float8 AS halted_seconds,
       f.letters + (SELECT coalesce(sum(r.letters), 0) FROM redriven r
                     WHERE r.queue IS NULL OR r.queue = q.name)::int AS letters,
       greatest(0, coalesce(extract(epoch FROM now() - f.untouched_since), 0))::float8 AS untouched_seconds
  FROM unnest(%(queues)s::text[]) q (name)
 CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE o.finished_at > now() - make_interval(secs => %(lately)s)) AS lately,
             CASE WHEN count(*) < %(limit)s OR min(o.finished_at) < now() - interval '{DEAD_LETTER_DAYS} days'
                  THEN count(*) FILTER (WHERE o.dead_lettered_at > now() - interval '{DEAD_LETTER_DAYS} days') END AS letters,
             min(o.dead_lettered_at) FILTER (WHERE o.redrivable) AS untouched_since
        FROM (SELECT t.finished_at, t.dead_lettered_at,
                     t.dead_lettered_at > now() - interval '{DEAD_LETTER_DAYS} days' AND NOT {HAS_SUCCESSOR} AS redrivable
                FROM turns t
               WHERE {INDEXED_STATUS} = 'FAILED' AND t.dropped_at IS NULL AND t.queue = q.name
                ORDER BY t.finished_at DESC LIMIT %(limit)s) o) f
  LEFT JOIN halted h ON h.queue = q.name
 ORDER BY q.name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One queue at one moment."""

    queue: str
    failed_lately: int
    """Turns that finally failed within the last `lately_seconds`, are still FAILED and do not halt their session."""
    halted: int
    """Sessions that a FAILED turn halts."""
    halted_lately: int
    """Those of `halted` that were halted within the last `lately_seconds`."""
    halted_seconds: float
    """How long the longest of `halted` has been halted; 0 if there is none."""
    letters: int | None
    """How many dead letters of FAILED turns the DLQ has at most; None: too many to count."""
    untouched_seconds: float
    """How long ago the oldest of these dead letters was sent whose turn can be redriven; 0 if there is none. At least: if more
    than `MOST` turns have failed, the oldest are not read."""

    @property
    def needs_operator(self) -> bool:
        return self.failed_lately > 0 or self.halted > 0 or self.untouched_seconds > 0


async def read_attention(database: Database, queues: Sequence[str], *, lately_seconds: float) -> list[Attention]:
    """What needs an operator in each of these queues, ordered by name. Raises DatabaseUnavailableError."""
    parameters = {"queues": list(queues), "lately": lately_seconds, "limit": MOST}
    return [Attention(**row) for row in await database.fetch(ATTENTION, parameters)]
