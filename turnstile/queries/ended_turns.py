"""Which queues have ended turns. SQL for reads of the turns that have ended lately.

The index `turns_finished_at` is by queue, then by the end: the retention deletes the oldest turns of one queue
(`retention.delete_turns`), and with a name for each queue the newest are as near. A BRIN index would be smaller, but each of its
ranges has old and new turns as soon as new rows take the room of deleted ones, and then it finds nothing.
"""

from typing import LiteralString

# From each name to the next one: as many look-ups as there are queues, on a table of any size.
ENDED_QUEUES: LiteralString = """ARRAY(
    WITH RECURSIVE q (name) AS (
        SELECT min(t.queue) FROM turns t WHERE t.finished_at IS NOT NULL
         UNION ALL
        SELECT (SELECT min(t.queue) FROM turns t WHERE t.queue > q.name AND t.finished_at IS NOT NULL) FROM q
         WHERE q.name IS NOT NULL
    ) SELECT q.name FROM q WHERE q.name IS NOT NULL)"""
"""The queues that have ended turns, also those that are no longer declared: for `t.queue = ANY (...)`."""
