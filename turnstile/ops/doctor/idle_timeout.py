"""Finds roles that may lock rows of turns in an idle transaction without end."""

from typing import LiteralString

import psycopg
from psycopg.rows import DictRow, dict_row

from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.outage import is_outage
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.startup_options import as_flags
from turnstile.errors import DatabaseUnavailableError

IDLE_TIMEOUT: LiteralString = """
WITH server AS (
    SELECT setting FROM pg_settings
     WHERE name = 'idle_in_transaction_session_timeout' AND source NOT IN ('database', 'user', 'database user')
), given AS (
    SELECT d.setrole, d.setdatabase, split_part(c.pair, '=', 2) AS setting
      FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) c (pair)
     WHERE split_part(c.pair, '=', 1) = 'idle_in_transaction_session_timeout'
       AND d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
), writer AS (
    SELECT r.rolname, coalesce(
        (SELECT g.setting FROM given g WHERE g.setrole IN (0, r.oid)
          ORDER BY g.setrole <> 0 DESC, g.setdatabase <> 0 DESC LIMIT 1), (SELECT setting FROM server), '0') AS setting
      FROM pg_roles r
     WHERE r.rolcanlogin AND (r.rolname = current_user OR NOT r.rolsuper) AND has_table_privilege(r.oid, 'turns', 'UPDATE')
)
SELECT current_database() AS subject, 'roles without one: ' || string_agg(rolname, ', ' ORDER BY rolname) AS detail
  FROM writer WHERE setting ~ '^0[a-z]*$' HAVING count(*) > 0
"""
"""The roles that may change turns, and whose sessions get no timeout from the server's configuration, the database or the role.

Run it in a session that sets no such timeout itself: only such a session sees the server's configuration. `writer` takes the most
specific default: of the role in this database, of the role, of the database. Superusers are left out, except the current role.
"""


async def find_roles_without_idle_timeout(place: DatabasePlace) -> list[DictRow]:
    """A row if a role may lock rows of turns in an idle transaction without end. Raises DatabaseUnavailableError."""
    # A new session: the pool's connections set the timeout themselves, and do not see the default.
    options = as_flags({"search_path": place.schema})
    try:
        async with await psycopg.AsyncConnection.connect(
            conninfo(place, "turnstile-doctor"), options=options, autocommit=True, row_factory=dict_row
        ) as connection:
            return await (await connection.execute(IDLE_TIMEOUT)).fetchall()
    except psycopg.Error as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailableError(str(error).partition("\n")[0]) from error
