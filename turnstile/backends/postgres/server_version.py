"""Which versions of PostgreSQL this program works with, and what the older ones lack."""

from typing import Any

import psycopg

OLDEST_SERVER = 15
"""The oldest major version that the tests run on."""

_FIRST_WITH_TRANSACTION_TIMEOUT = 17

Connected = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def server_refused(connection: Connected) -> str | None:
    """Why the server is too old; None if it is not. No round trip."""
    # libpq has 0 for a version that it can't read.
    if not 0 < connection.info.server_version < OLDEST_SERVER * 10_000:
        return None
    return (
        f"the server is PostgreSQL {describe_version(connection)}, and Turnstile needs {OLDEST_SERVER} or newer: "
        "upgrade it, or set DATABASE_URL to another server"
    )


def has_transaction_timeout(connection: Connected) -> bool:
    """Whether the server can bound a transaction as a whole. No round trip."""
    return connection.info.server_version >= _FIRST_WITH_TRANSACTION_TIMEOUT * 10_000


def describe_version(connection: Connected) -> str:
    """The version as the server states it, without the name of its package."""
    return (connection.info.parameter_status("server_version") or "").partition(" ")[0]
