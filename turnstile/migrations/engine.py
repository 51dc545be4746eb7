"""How migrations connect.

They connect as the other processes do, so that DATABASE_URL has one meaning. SQLAlchemy reads it differently: it knows no libpq
keywords, takes several hosts only in another form, and accepts a server that has become read-only.
"""

import time
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool

from turnstile.backends.postgres.database import CONNECT_TIMEOUT_SECONDS, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.server_version import server_refused
from turnstile.backends.postgres.startup_options import encoding_refused, option_dropped, options_refused
from turnstile.errors import ServerTooOldError, SettingsError
from turnstile.migrations.lock_timeouts import MIGRATION_LOCK

POLL_SECONDS = 0.25

VERSION_TABLE = "turnstile_version"
"""Holds the revision of the tables. Not alembic's default name: another program may keep its own revision there."""


def make_engine(place: DatabasePlace) -> Engine:
    """Takes the URL in any form that the settings take. There is no statement time-out: an index on a large table takes long.

    A connection raises ServerTooOldError, or SettingsError if the database can't hold every text, or if the tables would be made
    in another schema.
    """
    return create_engine("postgresql+psycopg://", creator=lambda: _connect(place), poolclass=NullPool)


def _connect(place: DatabasePlace) -> psycopg.Connection[Any]:
    try:
        connection = psycopg.connect(conninfo(place, "turnstile-migrate", statement_timeout_seconds=0))
    except psycopg.OperationalError as error:
        if (refused := options_refused(error)) is not None:
            raise SettingsError(f"DATABASE_URL: {refused}") from error
        raise
    if (old := server_refused(connection)) is not None:
        connection.close()
        raise ServerTooOldError(old)
    if (refused := encoding_refused(connection) or _other_schema(connection, place)) is not None:
        connection.close()
        raise SettingsError(f"DATABASE_URL: {refused}")
    return connection


def _other_schema(connection: psycopg.Connection[Any], place: DatabasePlace) -> str | None:
    found = connection.execute("SELECT current_setting('search_path')").fetchone()
    connection.rollback()
    return option_dropped("search_path", place.schema, found and found[0])


def read_default_schema(place: DatabasePlace) -> tuple[str, str | None]:
    """The role, and the schema in which other programs that connect as it make their tables, if they set no search path."""
    with psycopg.connect(place.libpq_url, connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection:
        found = connection.execute("SELECT current_schema()::text").fetchone()
        return connection.info.user, found[0] if found else None


def make_schema(connection: Connection, place: DatabasePlace) -> list[str]:
    """The statements that make the schema; none if it is there, because `IF NOT EXISTS` asks for the right to make one all the
    same."""
    if connection.scalar(text("SELECT to_regnamespace(:schema)"), {"schema": place.schema}) is not None:
        return []
    return [f'CREATE SCHEMA "{place.schema}"']


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
