"""Whether this program can work on the tables that it finds. API, workers and relays decide the same (ADR 0022).

A migration works with the release before it, so during a rolling deploy older programs run on newer tables. A later release may
take away what they use. Its migration then says in `serves_from` which programs still work.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg.rows import scalar_row

from turnstile.backends.postgres.outage import UnfitTablesError
from turnstile.errors import FORBIDDEN
from turnstile.telemetry.own_log import log

VERSIONS = ("0001",)
"""The versions of the tables that this program knows, the newest last: those of `turnstile/migrations/versions`."""

_SEES_NO_ROW: LiteralString = """
       row_security_active('turns') AND NOT EXISTS (
           SELECT FROM pg_policy p CROSS JOIN unnest(p.polroles) r (id)
            WHERE p.polrelid = 'turns'::regclass AND (r.id = 0 OR pg_has_role(r.id, 'USAGE')))
"""
COLUMNS: LiteralString = f"version_num AS version, serves_from, {_SEES_NO_ROW} AS sees_no_row FROM turnstile_version"
READ_VERSION: LiteralString = f"SELECT {COLUMNS}"
"""For `Database(first=...)` of processes that work on the tables."""
_HIDDEN: LiteralString = """
SELECT nspname FROM pg_namespace WHERE nspname = current_setting('search_path') AND NOT has_schema_privilege(oid, 'USAGE')
"""

MIGRATE = "run `turnstile migrate`"
MISSING = f"the database has no tables: {MIGRATE}"
OLDER = f"the tables are older than this program: {MIGRATE}"
NEWER = "the tables are newer than this program can use: start a newer release of Turnstile"


def tables_refused(found: Mapping[str, Any] | None) -> str | None:
    """Why this program can't work on the tables, and what to do; None if it can. `found` is the row of READ_VERSION."""
    if found is None:
        return MISSING
    if found["version"] in VERSIONS:
        if found["sees_no_row"]:
            # Without this, such a process would start, find nothing to do, and say that all is well.
            return f"row-level security hides every row from this role; {FORBIDDEN}"
        return None if found["version"] == VERSIONS[-1] else OLDER
    return None if found["serves_from"] in VERSIONS else NEWER


async def schema_refused(connection: psycopg.AsyncConnection[Any]) -> str | None:
    """Why the role sees no table in the schema; None if it would. For such a role Postgres reports that there are
    none."""
    cursor = connection.cursor(row_factory=scalar_row)
    schema = await (await cursor.execute(_HIDDEN)).fetchone()
    return None if schema is None else f"permission denied for schema {schema}; {FORBIDDEN}"


class TableCheck:
    """The check of a pool's connections. `first` is their first statement, and returns the row of READ_VERSION."""

    def __init__(self, first: LiteralString) -> None:
        self._first = first
        self.refused: str | None = None
        """Why the tables can't be used, as far as is known."""

    async def check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Checks a new connection. Closes it and raises UnfitTablesError if the tables can't be used."""
        if (refused := await self.look(connection, self._first)) is not None:
            await connection.close()
            # The pool logs it, and tries again: work starts once the migration has run.
            raise UnfitTablesError(refused)

    async def look(
        self, connection: psycopg.AsyncConnection[Any], statement: LiteralString = READ_VERSION
    ) -> str | None:
        """Why the tables can't be used now; None if they can. One round trip."""
        try:
            cursor = await connection.execute(statement)
            refused = tables_refused(await cursor.fetchone())
        except psycopg.errors.UndefinedTable:
            refused = await schema_refused(connection) or MISSING
        except psycopg.errors.InsufficientPrivilege as error:
            refused = f"{str(error).partition(chr(10))[0]}; {FORBIDDEN}"
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction):
            refused = OLDER
        self.note(refused)
        return refused

    def note(self, refused: str | None, error: psycopg.Error | None = None) -> None:
        """Logs each reason once, until the tables can be used again. `error` is one of a statement."""
        if refused is not None and refused != self.refused:
            # The first line has names of the schema, and no values.
            cause = {} if error is None else {"error": str(error).partition("\n")[0]}
            log.error("database.refused", reason=refused, **cause)
        self.refused = refused
