"""Deletes old records of what operators did, and the rows of workers that vanished without a shutdown."""

from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET, OLDER

# In the order of the ids, which is that of the starts: no index for so few rows.
FORGET_REDRIVES: LiteralString = f"""
WITH gone AS (
    DELETE FROM redrives WHERE id = ANY (ARRAY(
        SELECT o.id FROM (SELECT r.id, r.started_at FROM redrives r ORDER BY r.id LIMIT {AT_ONCE}) o
         WHERE o.started_at < now() - make_interval(secs => %(older_than)s))) RETURNING 1
) SELECT count(*) AS gone FROM gone
"""
FORGET_AUDIT: LiteralString = FORGET.format(table="audit", over=OLDER, by="created_at")
FORGET_ERASURES: LiteralString = FORGET.format(
    table="erasures", over="finished_at < now() - make_interval(secs => %(older_than)s)", by="finished_at"
)
FORGET_WORKERS: LiteralString = FORGET.format(
    table="workers", over="seen_at < clock_timestamp() - interval '1 day'", by="seen_at"
)


async def delete_records(database: Database, older_than_seconds: float) -> bool:
    """Deletes redrives, audit events and the like that are older. True if there may be more. Raises DatabaseUnavailableError."""
    age = {"older_than": older_than_seconds}
    statements = (FORGET_REDRIVES, FORGET_AUDIT, FORGET_ERASURES)
    rows = [row for statement in statements for row in await database.fetch(statement, age)]
    return any(row["gone"] == AT_ONCE for row in rows)


async def delete_vanished_workers(database: Database) -> bool:
    """Deletes the workers that were last seen more than a day ago. True if there may be more. Raises DatabaseUnavailableError."""
    [row] = await database.fetch(FORGET_WORKERS, {})
    return bool(row["gone"] == AT_ONCE)
