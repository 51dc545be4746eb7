"""Migrates the database's tables to a revision. The steps, independent of the command line."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.script import ScriptDirectory
from alembic.util import CommandError as RevisionError
from psycopg.sql import Identifier
from sqlalchemy.exc import DBAPIError

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import RECORD, parameters, report
from turnstile.backends.postgres.certificate import certificate_refused
from turnstile.backends.postgres.outage import is_outage
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.errors import DatabaseUnavailableError
from turnstile.migrations.engine import VERSION_TABLE, make_engine, read_default_schema
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

_POLL_SECONDS = 0.25
_LOCK_NOT_AVAILABLE = "55P03"
_TAKEN = frozenset({"42P07", "42710", "42723"})
"""duplicate_table (also an index or a sequence), duplicate_object, duplicate_function."""

_IN_THE_WAY = (
    "another transaction, such as a backup or a report, has long locked what the migration changes; find it in "
    "pg_stat_activity by its xact_start. To hold up no turns, the migration was given up, with nothing half done: "
    "run it again later"
)

_OWN_SCHEMA = "set TURNSTILE_DATABASE_SCHEMA to a schema that only Turnstile uses; nothing was changed"
_NOT_ALLOWED = frozenset({"42501", "3F000"})
"""insufficient_privilege, and invalid_schema_name: of a schema that the role may not use."""


def apply(
    place: DatabasePlace,
    revision: str = "head",
    *,
    down: bool = False,
    sql: bool = False,
    by: str | None = None,
    wait_seconds: float = 0.0,
    on_wait: Callable[[DatabaseUnavailableError], object] = lambda _: None,
) -> tuple[str, str]:
    """Migrates, or prints the SQL. Returns the revisions before and after ("nothing" if there are no tables).

    The audit gets an event for each version if it is known who migrates (`by`).

    Retries for `wait_seconds` while the database is away: a migration that was broken off may be repeated. Calls `on_wait` before
    the first retry, and whenever the reason changes. Raises DatabaseUnavailableError, CertificateRefusedError and CommandError,
    also if another transaction's lock blocks it.
    """
    deadline = time.monotonic() + wait_seconds
    reason = ""
    while True:
        try:
            with _translated_errors(place):
                before = _current(place)
                _refuse_newer_tables(before)
                _run(_config(place, by), before, revision, down=down, sql=sql)
                return before or "nothing", _current(place) or "nothing"
        except DatabaseUnavailableError as error:
            if time.monotonic() >= deadline:
                raise
            if str(error) != reason:
                reason = str(error)
                on_wait(error)
            time.sleep(_POLL_SECONDS)


def _refuse_newer_tables(current: str | None) -> None:
    # Happens after a rollback to an older program. Alembic's own error is unclear, and with --sql comes after half a script.
    known = known_revisions()
    if current is not None and current not in known:
        raise CommandError(
            f"the tables are at {current}, a revision of a later version of this program; this version "
            f"knows none after {known[0]}. Nothing was changed: run the later version",
            ExitCode.NOT_FOUND,
        )


def _run(config: Config, before: str | None, revision: str, *, down: bool, sql: bool) -> None:
    move = command.downgrade if down else command.upgrade
    try:
        move(config, f"{before or 'base'}:{revision}" if sql else revision, sql=sql)
    except RevisionError as error:
        raise CommandError(f"revision {revision!r}: {error}", ExitCode.NOT_FOUND) from error


@contextmanager
def _translated_errors(place: DatabasePlace) -> Iterator[None]:
    # A failover may happen after the first connection. SQLAlchemy wraps the driver's errors in its own.
    try:
        yield
    except DBAPIError as error:
        cause = error.orig
        if not isinstance(cause, psycopg.Error):
            raise
        if (refused := certificate_refused("DATABASE_URL", cause)) is not None:
            raise refused from error
        if cause.sqlstate == _LOCK_NOT_AVAILABLE:
            raise CommandError(_IN_THE_WAY, ExitCode.UNAVAILABLE) from error
        if cause.sqlstate in _TAKEN:
            taken = str(cause).partition("\n")[0]
            raise CommandError(f"{taken}, of another program: {_OWN_SCHEMA}", ExitCode.USAGE) from error
        if cause.sqlstate in _NOT_ALLOWED:
            raise CommandError(_not_allowed(cause, place), ExitCode.USAGE) from error
        if is_outage(cause):
            raise DatabaseUnavailableError(str(cause)) from error
        raise


def _not_allowed(error: psycopg.Error, place: DatabasePlace) -> str:
    refused = str(error).partition("\n")[0]
    return (
        f"{refused}: set DATABASE_URL to the role that owns the schema {place.schema}; if the schema does not exist, "
        f"the database's owner creates it: CREATE SCHEMA {place.schema} AUTHORIZATION role; nothing was changed"
    )


def warn_of_shared_schema(place: DatabasePlace) -> str | None:
    """What to do if other programs make their tables in our schema by mistake; None if they do not, or if it can't be read.

    Postgres' own search path begins with the schema that has the role's name, and many a role is called `turnstile`.
    """
    try:
        role, schema = read_default_schema(place)
    except psycopg.Error:
        return None
    if schema != place.schema:
        return None
    return (
        f"every program that connects as {role} creates its tables in the schema {place.schema}, and may drop "
        f"Turnstile's: if other programs use this role, too, ALTER ROLE {Identifier(role).as_string()} SET search_path = public"
    )


def known_revisions() -> list[str]:
    """Those of this program, the newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config(place: DatabasePlace | None = None, by: str | None = None) -> Config:
    note = None if by is None else partial(_note_version, by)
    config = Config(attributes={"place": place, "on_version_apply": note})
    config.set_main_option("script_location", "turnstile:migrations")
    return config


def _note_version(by: str, *, ctx: MigrationContext, step: MigrationInfo, **_: object) -> None:
    """An event for a version, in its transaction. The way down to `base` has dropped the table: then the log alone has it."""
    way = "up" if step.is_upgrade else "down"
    revision = ", ".join(step.destination_revision_ids) or "base"
    event = AuditEvent(kind=AuditKind.TABLES_MIGRATED, actor=by, subject=f"the tables, {way} to {revision}")
    connection = ctx.connection
    if connection is not None and connection.exec_driver_sql("SELECT to_regclass('audit')").scalar() is not None:
        connection.exec_driver_sql(RECORD, parameters(event))
    report(event)


def _current(place: DatabasePlace) -> str | None:
    with make_engine(place).connect() as connection:
        return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
