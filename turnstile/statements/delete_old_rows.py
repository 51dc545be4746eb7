"""Pruning: the relays delete rows that are no longer needed, oldest first, a limited number at a time. SQL."""

from typing import LiteralString

AT_ONCE = 1000
"""Rows that one statement deletes at most. If it deleted as many, there may be more."""

FORGET: LiteralString = f"""
WITH gone AS (
    DELETE FROM {{table}} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {{table}} WHERE {{over}} ORDER BY {{by}} LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING 1
) SELECT count(*) AS gone FROM gone
"""

OLDER: LiteralString = "created_at < now() - make_interval(secs => %(older_than)s)"
