"""Deletes old records of what operators did, and the rows of workers that vanished without a shutdown."""

from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.statements.delete_old_rows import AT_ONCE

# Without a lock of the rows, which needs the right to change them: nobody changes what is in the audit. Two relays that delete
# the same rows at the same moment do no harm.
_OLDEST: LiteralString = f"""
WITH gone AS (
    DELETE FROM {{table}} WHERE {{key}} = ANY (ARRAY(
        SELECT o.{{key}} FROM {{table}} o WHERE o.{{time}} < now() - make_interval(secs => %(older_than)s)
         ORDER BY o.{{time}} LIMIT {AT_ONCE})) RETURNING 1
) SELECT count(*) AS gone FROM gone
"""
FORGET_REDRIVES: LiteralString = _OLDEST.format(table="redrives", key="id", time="started_at")
FORGET_AUDIT: LiteralString = _OLDEST.format(table="audit", key="id", time="created_at")
FORGET_ERASURES: LiteralString = _OLDEST.format(table="erasures", key="id", time="finished_at")
FORGET_WORKERS: LiteralString = _OLDEST.format(table="workers", key="worker_id", time="seen_at")

VANISHED_SECONDS = 86_400.0


async def delete_records(database: Database, older_than_seconds: float) -> bool:
    """Deletes redrives, audit events and the like that are older. True if there may be more. Raises DatabaseUnavailableError."""
    age = {"older_than": older_than_seconds}
    statements = (FORGET_REDRIVES, FORGET_AUDIT, FORGET_ERASURES)
    rows = [row for statement in statements for row in await database.fetch(statement, age)]
    return any(row["gone"] == AT_ONCE for row in rows)


async def delete_vanished_workers(database: Database) -> bool:
    """Deletes the workers that were last seen more than a day ago. True if there may be more. Raises DatabaseUnavailableError."""
    [row] = await database.fetch(FORGET_WORKERS, {"older_than": VANISHED_SECONDS})
    return bool(row["gone"] == AT_ONCE)
