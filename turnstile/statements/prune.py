"""Forgetting: rows that are over are deleted, the oldest first and some at a time, by whichever relay comes first. SQL."""

from typing import LiteralString

AT_ONCE = 1000
"""Rows of one statement. As many as that have gone: there may be more."""

FORGET: LiteralString = f"""
WITH gone AS (
    DELETE FROM {{table}} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {{table}} WHERE {{over}} ORDER BY {{by}} LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING 1
) SELECT count(*) AS gone FROM gone
"""

OLDER: LiteralString = "created_at < now() - make_interval(secs => %(older_than)s)"
