"""How migrations connect, and how they wait.

As everybody else connects, so that there is one meaning of DATABASE_URL. SQLAlchemy would read it in its own way, knows no libpq
words and takes several hosts only in another form, and takes a server that is read-only by now.
"""

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from turns.database import conninfo

LOCK_TIMEOUT = "3s"
"""Whoever waits to change a table has everybody behind him who wants to read it: claims and submits, who give up after five."""


def make_engine(url: str) -> Engine:
    """For any form of the URL that the settings take. No statement is too slow: an index on a large table takes its time."""
    given = conninfo(url, "turnstile-migrate", statement_timeout_seconds=0)
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(given), poolclass=NullPool)


def statements_before() -> tuple[str, ...]:
    """What the transaction of all migrations begins with."""
    return (
        # A server that computes or waits does not notice that its client is gone, and would keep the locks until it has done.
        "SET LOCAL client_connection_check_interval = '2s'",
        # A session of ours gives up waiting after a few seconds, but another migration may take longer, and is in nobody's way.
        "SET LOCAL lock_timeout = 0",
        "SELECT pg_advisory_xact_lock(hashtext('turnstile.migrate'))",
        f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'",
    )
