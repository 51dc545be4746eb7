"""What waits for a person, as the tables have it: new final failures, halted sessions, and the dead letters that are known.

A page must not hang on one log line. A worker writes its line about a failure after the commit: killed between the two it writes
none, and a log driver may drop one. What the tables say stays true, and is told again each minute: a failure for some minutes, a
halted session for as long as it is halted. `letters` is what the DLQ should hold. Where SQS counts more, messages lie there that
no FAILED turn explains: malformed ones, and those that SQS has moved.

Told as a log line a minute and queue, beside every relay, as the backlog is (ADR 0034, ADR 0063). Several relays tell the same:
whoever counts the lines takes the greatest, never the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.archive.move import DEAD_LETTER_DAYS
from turnstile.backends.postgres.database import Database

REDRIVE_GRACE_MINUTES = 10
"""So long after its end a redrive still explains the letters of its turns: SQS counts approximately, and with a delay."""

MOST = 10_000
"""As many FAILED turns of a queue are looked at, those that failed last."""

# The index `turns_failed_at` has the queue and the end. Its predicate is an expression that stands here and nowhere else: no
# other statement can take the index for its own. A halted session's turn is looked up by its id, whatever the statistics say.
# A letter is on the DLQ from when it went out until SQS drops it, and the letters of a redrive until its sweep, which comes at
# its end. `letters` is NULL where more may be out than were looked at: a number that is too small would page for nothing.
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
      FROM (SELECT * FROM redrives ORDER BY id DESC LIMIT 100) r
     WHERE r.started_at > now() - interval '1 day'
       AND (r.finished_at IS NULL OR r.finished_at > now() - interval '{REDRIVE_GRACE_MINUTES} minutes')
)
SELECT q.name AS queue, f.lately AS failed_lately, coalesce(h.sessions, 0) AS halted, coalesce(h.lately, 0) AS halted_lately,
       greatest(0, coalesce(h.seconds, 0))::float8 AS halted_seconds,
       f.letters + (SELECT coalesce(sum(r.letters), 0) FROM redriven r
                     WHERE r.queue IS NULL OR r.queue = q.name)::int AS letters
  FROM unnest(%(queues)s::text[]) q (name)
 CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE o.finished_at > now() - make_interval(secs => %(lately)s)) AS lately,
             CASE WHEN count(*) < %(limit)s OR min(o.finished_at) < now() - interval '{DEAD_LETTER_DAYS} days'
                  THEN count(*) FILTER (WHERE o.dead_lettered_at > now() - interval '{DEAD_LETTER_DAYS} days') END AS letters
        FROM (SELECT t.finished_at, t.dead_lettered_at FROM turns t
               WHERE (t.status || '') = 'FAILED' AND t.queue = q.name ORDER BY t.finished_at DESC LIMIT %(limit)s) o) f
  LEFT JOIN halted h ON h.queue = q.name
 ORDER BY q.name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One queue at one moment."""

    queue: str
    failed_lately: int
    """Turns that finally failed, and have not gone back to work, within the last `lately_seconds`."""
    halted: int
    """Sessions that a FAILED turn halts."""
    halted_lately: int
    """Those of them that were halted within the last `lately_seconds`."""
    halted_seconds: float
    """For how long the longest of them has been halted; 0 if there is none."""
    letters: int | None
    """How many dead letters of FAILED turns the DLQ holds at most; None: too many to look at."""

    @property
    def needs_somebody(self) -> bool:
        """Whether a person should hear of it."""
        return self.failed_lately > 0 or self.halted > 0


async def read_attention(database: Database, queues: Sequence[str], *, lately_seconds: float) -> list[Attention]:
    """What waits for a person in each of these queues, by name. Raises DatabaseUnavailableError."""
    parameters = {"queues": list(queues), "lately": lately_seconds, "limit": MOST}
    return [Attention(**row) for row in await database.fetch(ATTENTION, parameters)]
