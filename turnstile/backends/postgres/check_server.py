"""One connection to Postgres when a process starts: whether its certificate is valid, and its version new enough."""

import psycopg

from turnstile.backends.postgres.certificate import certificate_refused
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.server_version import describe_version, has_transaction_timeout, server_refused
from turnstile.errors import ServerTooOldError
from turnstile.telemetry.own_log import log

_BOUNDS = (
    "statement_timeout bounds each statement, idle_in_transaction_session_timeout the time between two; if a process is stopped "
    "while it sends a batch, the locks of this batch last until it goes on or ends"
)


async def check_server(setting: str, place: DatabasePlace) -> None:
    """Raises CertificateRefusedError or ServerTooOldError. Any other failure is an outage and raises nothing."""
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo(place, "turnstile-check"))
    except psycopg.Error as error:
        if (refused := certificate_refused(setting, error)) is not None:
            raise refused from error
        return
    try:
        if (old := server_refused(connection)) is not None:
            raise ServerTooOldError(old)
        if not has_transaction_timeout(connection):
            log.info("database.no_transaction_timeout", server=describe_version(connection), instead=_BOUNDS)
    finally:
        await connection.close()
