"""How migrations connect.

As everybody else connects, so that there is one meaning of DATABASE_URL. SQLAlchemy would read it in its own way, knows no libpq
words and takes several hosts only in another form, and takes a server that is read-only by now.
"""

import time

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool

from turnstile.backends.postgres.database import conninfo
from turnstile.migrations.giving_way import MIGRATION_LOCK

POLL_SECONDS = 0.25


def make_engine(url: str) -> Engine:
    """For any form of the URL that the settings take. No statement is too slow: an index on a large table takes its time."""
    given = conninfo(url, "turnstile-migrate", statement_timeout_seconds=0)
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(given), poolclass=NullPool)


def wait_for_others(connection: Connection) -> None:
    """Returns when no other migration is under way, and keeps others away for as long as the connection lives.

    Asks again and again: a statement that waits would have a snapshot, and the other's concurrent build would wait for that.
    """
    while True:
        free = connection.scalar(text(f"SELECT pg_try_advisory_lock({MIGRATION_LOCK})"))
        connection.commit()
        if free:
            return
        time.sleep(POLL_SECONDS)
