"""Which failures mean that Postgres is away or unfit, and which error a pool's callers get for them."""

import psycopg
from psycopg_pool import PoolTimeout

from turnstile.errors import DatabaseUnavailableError, DatabaseUnfitError, RowLockedError, TablesUnfitError
from turnstile.telemetry.own_log import log

ANSWERED = frozenset({"40P01", "55P03", "57014"})
"""SQLSTATEs by which a healthy server refuses a statement that met a lock or took too long."""

_GIVEN_UP = frozenset({"25P03", "25P04"})
"""SQLSTATEs of a transaction that the server ended because it was idle or too long. psycopg raises them as InternalError."""


class UnfitServerError(psycopg.OperationalError):
    """The server responds, but can't be used as it is; the text says what to do. Raised to the pool, which tries again."""


class UnfitTablesError(UnfitServerError):
    """The same of the tables. Logged where it is found."""


def is_outage(error: psycopg.Error) -> bool:
    """Whether the server or the connection failed, and not the statement.

    A demoted primary returns 25006 (read-only transaction) after a failover. Deadlocks and timeouts (40P01, 55P03, 57014)
    are retried like an outage, because nothing was done. Class 54 is an OperationalError too, but means that the statement
    exceeds a limit of the server, so a retry is useless.
    """
    if isinstance(error, psycopg.InterfaceError) or error.sqlstate in _GIVEN_UP | {"25006"}:
        return True
    return isinstance(error, psycopg.OperationalError) and not (error.sqlstate or "").startswith("54")


class NewestConnection:
    """Why a pool's newest attempt to connect failed. The pool itself logs it, and reports only a timeout to its
    callers."""

    def __init__(self) -> None:
        self._failure: psycopg.Error | None = None

    def failed(self, error: psycopg.Error) -> None:
        """No connection was made, or it can't be used. An unfit server is logged once, until a connection works."""
        is_new = str(error) != str(self._failure)
        self._failure = error
        if is_new and isinstance(error, UnfitServerError) and not isinstance(error, UnfitTablesError):
            log.error("database.refused", reason=str(error))

    def worked(self) -> None:
        """A caller has used a connection."""
        self._failure = None

    @property
    def unfit(self) -> DatabaseUnavailableError | None:
        """Why no connection can be had before somebody has done something; None if that is not known."""
        return self.explain(self._failure) if isinstance(self._failure, UnfitServerError) else None

    def explain(self, error: psycopg.Error) -> DatabaseUnavailableError:
        """The error for a caller, of an outage: with the reason why there is no connection, where the pool reports a timeout."""
        cause = error if self._failure is None or not isinstance(error, PoolTimeout) else self._failure
        # Only the first line: a DETAIL after it has row values.
        line = str(cause).partition("\n")[0]
        match cause:
            case UnfitTablesError():
                return TablesUnfitError(line)
            case UnfitServerError():
                return DatabaseUnfitError(line)
            case psycopg.errors.LockNotAvailable():
                return RowLockedError(f"{type(cause).__name__}: {line}")
        return DatabaseUnavailableError(f"{type(cause).__name__}: {line}")
