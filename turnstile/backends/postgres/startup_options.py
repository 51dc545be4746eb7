"""The server settings that every connection starts with, and the check that the server has them.

They are sent as libpq's `options`. A pooler may drop these silently: statements, locks and transactions would then have no time
limit, and the hot statements would have other plans. So each new connection is checked once, and with it the server's version and
the database's encoding.

PostgreSQL 15 and 16 refuse a connection that asks for `transaction_timeout`. The check sets it instead, where the server has it.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg

from turnstile.backends.postgres.outage import UnfitServerError
from turnstile.backends.postgres.server_version import server_refused

_TRANSACTION_TIMEOUT = "transaction_timeout"

READ_SETTINGS: LiteralString = f"""
SELECT name, CASE name WHEN '{_TRANSACTION_TIMEOUT}' THEN set_config(name, %s, false) ELSE setting END AS setting
  FROM pg_settings WHERE name = ANY (%s)
"""

FORM = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "extra_float_digits": "1", "array_nulls": "on"}
"""The form of values, which the owner of the database may have set differently: psycopg reads times in no other, floats keep all
their digits, and NULL in an array is not a text."""


def as_flags(options: Mapping[str, str]) -> str:
    """The options in the format of libpq's `options` parameter."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in options.items())


class StartupOptions:
    """The requested settings: name -> value in the setting's own unit, as `pg_settings` shows it."""

    def __init__(self, options: Mapping[str, str], *, transaction_timeout_seconds: float | None) -> None:
        """`transaction_timeout_seconds` is for servers that have one; None leaves it as it is."""
        self._options = options
        self._transaction_timeout_seconds = transaction_timeout_seconds

    async def check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Closes the connection and raises UnfitServerError if its settings differ, if the server is too old, or if the
        database can't hold every text. One round trip."""
        names = [*self._options, *([] if self._transaction_timeout_seconds is None else [_TRANSACTION_TIMEOUT])]
        cursor = await connection.execute(READ_SETTINGS, [f"{self._transaction_timeout_seconds}s", names])
        found = {row["name"]: row["setting"] for row in await cursor.fetchall()}
        refused = server_refused(connection) or encoding_refused(connection) or self._dropped(found)
        if refused is None:
            return
        await connection.close()
        raise UnfitServerError(refused)

    def _dropped(self, found: Mapping[str, str]) -> str | None:
        all_dropped = (option_dropped(name, wanted, found.get(name)) for name, wanted in self._options.items())
        return next(filter(None, all_dropped), None)


def option_dropped(name: str, wanted: str, found: str | None) -> str | None:
    """Why a connection is refused that has another value of an option than it was started with; None if it has this one."""
    if found == wanted:
        return None
    return (
        f"{name} is {found} and not {wanted}: what DATABASE_URL leads to drops a connection's startup options, as some poolers "
        "do; let it lead to Postgres itself"
    )


def options_refused(error: psycopg.Error) -> str | None:
    """The reason for the operator if `error` is a pooler's refusal of the startup options; otherwise None."""
    if "unsupported startup parameter" not in str(error):
        return None
    return "what DATABASE_URL leads to refuses a connection's startup options, as PgBouncer does; let it lead to Postgres itself"


def encoding_refused(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> str | None:
    """Why the database can't hold every text that a user or a model may write; None if it can. No round trip."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding in {None, "UTF8"}:
        return None
    return (
        f"the database {connection.info.dbname} has the encoding {encoding}, and turns need UTF8: make another with "
        "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8', and let DATABASE_URL name it"
    )
