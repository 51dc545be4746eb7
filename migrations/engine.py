"""How migrations connect.

They connect as the other processes do, so that DATABASE_URL has one meaning. SQLAlchemy reads it differently: it knows no libpq
keywords, takes several hosts only in another form, and accepts a server that has become read-only.
"""

import time

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool

from turnstile.backends.postgres.database import conninfo
from turnstile.migrations.lock_timeouts import MIGRATION_LOCK

POLL_SECONDS = 0.25


def make_engine(url: str) -> Engine:
    """Takes the URL in any form that the settings take. There is no statement time-out: an index on a large table takes long."""
    given = conninfo(url, "turnstile-migrate", statement_timeout_seconds=0)
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(given), poolclass=NullPool)


def wait_for_others(connection: Connection) -> None:
    """Waits until no other migration is under way, then locks out others until the connection closes.

    It polls: a waiting statement would have a snapshot, and the other migration's concurrent build would wait for that.
    """
    while True:
        free = connection.scalar(text(f"SELECT pg_try_advisory_lock({MIGRATION_LOCK})"))
        connection.commit()
        if free:
            return
        time.sleep(POLL_SECONDS)
