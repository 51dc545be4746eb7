"""Migrates the database's tables to a revision. The steps, independent of the command line."""

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

_POLL_SECONDS = 0.25
_LOCK_NOT_AVAILABLE = "55P03"
_IN_THE_WAY = (
    "another transaction has locked what is to be changed for long (a backup, a report); pg_stat_activity shows it by its "
    "xact_start. The migration would have held up turns, so it was given up, with nothing half done: run it again later"
)


def apply_within(
    url: str, seconds: float, revision: str = "head", *, down: bool = False, sql: bool = False
) -> tuple[str, str]:
    """As `apply`, but retries for `seconds` while the database is away. A migration that was broken off may be repeated."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return apply(url, revision, down=down, sql=sql)
        except DatabaseUnavailableError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS)


def apply(url: str, revision: str = "head", *, down: bool = False, sql: bool = False) -> tuple[str, str]:
    """Migrates, or prints the SQL. Returns the revisions before and after ("nothing" if there are no tables).

    Raises DatabaseUnavailableError, CertificateRefusedError and CommandError, also if another transaction's lock blocks it.
    """
    with _named_outages():
        before = _current(url)
        _refuse_later(before)
        _run(_config(url), before, revision, down=down, sql=sql)
        return before or "nothing", _current(url) or "nothing"


def _refuse_later(current: str | None) -> None:
    # Happens after a rollback to an older program. Alembic's own error is unclear, and with --sql comes after half a script.
    known = [script.revision for script in _scripts().walk_revisions()]
    if current is not None and current not in known:
        raise CommandError(
            f"the tables are at {current}, which a later version of this program has made; this one knows none after "
            f"{known[0]}, and nothing was changed",
            ExitCode.NOT_FOUND,
        )


def _run(config: "Config", before: str | None, revision: str, *, down: bool, sql: bool) -> None:
    from alembic import command
    from alembic.util import CommandError as RevisionError

    try:
        if sql and down:
            command.downgrade(config, f"{before or 'base'}:{revision}", sql=True)
        elif sql:
            command.upgrade(config, f"{before}:{revision}" if before else revision, sql=True)
        elif down:
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)
    except RevisionError as error:
        raise CommandError(f"revision {revision!r}: {error}", ExitCode.NOT_FOUND) from error


@contextmanager
def _named_outages() -> "Iterator[None]":
    # A failover may happen after the first connection. SQLAlchemy wraps the driver's errors in its own.
    import psycopg
    from sqlalchemy.exc import DBAPIError

    from turnstile.backends.postgres.certificate import certificate_refused
    from turnstile.backends.postgres.database import is_outage

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
        if is_outage(cause):
            raise DatabaseUnavailableError(str(cause)) from error
        raise


def known_revision() -> str | None:
    """The newest revision that this program knows."""
    return _scripts().get_current_head()


def _scripts() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config(""))


def _config(url: str) -> "Config":
    from alembic.config import Config

    spec = importlib.util.find_spec("turnstile.migrations")
    if spec is None or not spec.submodule_search_locations:
        raise CommandError("the package `turnstile.migrations` is not installed with this program")
    config = Config()
    # The configuration uses ini syntax, where a percent sign starts a substitution.
    config.set_main_option("script_location", str(Path(spec.submodule_search_locations[0])).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


def _current(url: str) -> str | None:
    from alembic.runtime.migration import MigrationContext

    from turnstile.migrations.engine import make_engine

    with make_engine(url).connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()
