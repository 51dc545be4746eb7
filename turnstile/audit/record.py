"""Records an audit event: a row of the table `audit`, and a log line. The program only adds rows and reads them."""

from collections.abc import Callable, Mapping
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from turnstile.audit.event import AuditEvent
from turnstile.backends.postgres.database import Database
from turnstile.telemetry.own_log import log

RECORD: LiteralString = """
INSERT INTO audit (kind, actor, tenant_id, subject, counts, reason)
VALUES (%(kind)s, %(actor)s, %(tenant_id)s, %(subject)s, %(counts)s, %(reason)s)
"""


async def record(connection: AsyncConnection[Any], event: AuditEvent) -> None:
    """Records `event` in the transaction of this connection: it is kept if, and only if, the action is.

    The log line does not wait for the commit. Raises psycopg.Error.
    """
    await connection.execute(RECORD, parameters(event))
    report(event)


async def change_and_record(
    database: Database, statement: LiteralString, given: Mapping[str, Any], event: Callable[[DictRow], AuditEvent]
) -> DictRow | None:
    """Runs a statement that returns the one row that it changes, and records the `event` of that row in the same transaction.

    Returns the row; None if nothing changed, and then there is no event. Raises DatabaseUnavailableError.
    """
    async with database.connection() as connection, connection.transaction():
        changed = await (await connection.execute(statement, given)).fetchone()
        if changed is not None:
            await record(connection, event(changed))
    return changed


async def record_alone(database: Database, *events: AuditEvent) -> None:
    """Records `events` in a transaction of their own, before an action that has none in Postgres.

    Raises DatabaseUnavailableError: the caller must then not go on with the action.
    """
    if events:
        await database.fetch_pipelined([(RECORD, parameters(event)) for event in events])
    for event in events:
        report(event)


def parameters(event: AuditEvent) -> dict[str, Any]:
    """What RECORD asks for."""
    fields = event.as_fields()
    return {**fields, "counts": Jsonb(fields["counts"])}


def report(event: AuditEvent) -> None:
    """The log line alone: whoever executes RECORD on a connection of another kind writes it, too."""
    log.info("audit.recorded", **event.as_fields())
