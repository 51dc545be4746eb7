"""Reads: what the API and the command line show of a turn and a session. Always within one tenant.

The shape of a list's statement depends on the caller's filters, so SQLAlchemy Core makes it. All go to the writer (never a
replica): a client that got a 202 finds its turn.

A read by id includes the archive. The archive is read after the table, only for turns that the table does not have: a turn moves
only from the table to the archive, in one commit, so the two reads can't miss it. Lists read only the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow
from sqlalchemy import ColumnElement, Select, literal_column, select, tuple_, union_all

from turnstile.archive.reads import WITH_MESSAGES, TurnKey, read_archived, read_archived_standings
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, ListTooBroadError
from turnstile.queries.tables import sessions, turns
from turnstile.turn.status import TurnStatus

_OUT_OF_TIME = "57014"

REACH = 10_000
"""Turns that one page of a list reads at most: even from disk, this takes a fraction of the statement's time limit."""
_UNINDEXED = (TurnStatus.SUCCEEDED, TurnStatus.CANCELED)
_NEWEST_FIRST = (turns.c.created_at.desc(), turns.c.id.desc())

Position = tuple[datetime, UUID]
"""A place in a list: creation time and id of the last turn of a page. Not the id alone: clients may choose theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One row of the status table, with its messages."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    worker_id: str | None
    execute_at: datetime | None
    expires_at: datetime
    timeout_seconds: float | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error_class: str | None
    error: str | None
    dead_lettered_at: datetime | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: str
    """`turn`, or `compensation`."""
    parent_turn_id: UUID | None
    """The turn whose child or compensation it is."""
    joining: Sequence[UUID] | None
    """The children that it waits for at present."""
    metadata: Mapping[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    halted_by: UUID | None = None
    """The FAILED turn, perhaps this one, that halts the session: none of its turns is claimed (G9)."""
    inputs: Sequence[Any] | None = None
    """The user's input: one content, or several that were merged. None in a list."""
    output: Any = None
    """The reply's content; None until SUCCEEDED. None in a list: a page of a hundred replies of 1 MiB would be too large."""
    webhook: Mapping[str, Any] | None = None
    """The state of its completion webhook (tries, delivered_at, next_try_at, error); None until it ends, or if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list. A field that is left out matches all."""

    tenant_id: str
    session_id: str | None = None
    status: TurnStatus | None = None
    queue: str | None = None


COLUMNS = [
    *(turns.c[name] for name in TurnRecord.__dataclass_fields__ if name in turns.c),
    select(sessions.c.halted_by)
    .where(sessions.c.tenant_id == turns.c.tenant_id, sessions.c.session_id == turns.c.session_id)
    .scalar_subquery()
    .label("halted_by"),
]
"""What a list reads of a turn."""

_READ: LiteralString = f"""
SELECT {
    WITH_MESSAGES.format(
        messages="(SELECT * FROM messages WHERE turn_id = t.id)",
        webhooks="(SELECT * FROM webhooks WHERE turn_id = t.id)",
    )
},
       (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) AS halted_by
  FROM turns t WHERE t.id = ANY (%(ids)s::uuid[])
"""

_STANDINGS: LiteralString = """
SELECT id, tenant_id, session_id, status, attempt, fence FROM turns WHERE id = ANY (%(ids)s::uuid[])
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a turn that is polled while a client waits for it."""

    id: UUID
    tenant_id: str
    session_id: str
    status: TurnStatus
    attempt: int
    fence: int
    """The fence of its last claim; 0 if there was none."""


async def read_standings(database: Database, wanted: Sequence[TurnKey]) -> list[Standing | None]:
    """The states of many turns, in the order of `wanted`; None if the tenant has no such turn."""
    rows = await database.fetch(_STANDINGS, {"ids": [key.id for key in wanted]})
    found = {_key(row): _standing(row) for row in rows}
    archived = await read_archived_standings(database, [key for key in wanted if key not in found])
    found |= {key: _standing(row) for key, row in archived.items()}
    return [found.get(key) for key in wanted]


async def read_turns(database: Database, wanted: Sequence[TurnKey]) -> list[TurnRecord | None]:
    """Many turns with their replies, in the order of `wanted`; None if the tenant has no such turn."""
    rows = await database.fetch(_READ, {"ids": [key.id for key in wanted]})
    found = {_key(row): record(row) for row in rows}
    archived = await read_archived(database, [key for key in wanted if key not in found])
    found |= {key: record(row) for key, row in archived.items()}
    return [found.get(key) for key in wanted]


async def read_turn(database: Database, tenant_id: str, turn_id: UUID) -> TurnRecord | None:
    """One turn with its reply; None if the tenant has no such turn."""
    return (await read_turns(database, [TurnKey(tenant_id, turn_id)]))[0]


async def list_page(
    database: Database, wanted: TurnFilter, *, limit: int, before: Position | None = None
) -> tuple[list[TurnRecord], Position | None]:
    """The first `limit` matching turns after `before`, newest first, without their replies; and the `before` of the next page.
    None if there is no next page. Raises ListTooBroadError.

    There is no index for ended turns or for a queue, because it would slow down the hot path. Such a page reads REACH turns at
    most: it may have fewer than `limit` turns, or none, and still have a next page.
    """
    terms: list[ColumnElement[bool]] = [turns.c.tenant_id == wanted.tenant_id]
    if before is not None:
        terms.append(tuple_(turns.c.created_at, turns.c.id) < tuple_(*before))
    if wanted.session_id is not None or not (wanted.status in _UNINDEXED or (wanted.queue and wanted.status is None)):
        terms += having(session_id=wanted.session_id, queue=wanted.queue)
        found = await query_list(database, terms, wanted.status, _NEWEST_FIRST, limit + 1)
        return found[:limit], _position(found[limit - 1]) if len(found) > limit else None
    near = select(turns.c.id, turns.c.created_at, turns.c.status, turns.c.queue).where(*terms).order_by(*_NEWEST_FIRST)
    reached = near.limit(REACH).subquery()
    ids = select(reached.c.id).order_by(reached.c.created_at.desc(), reached.c.id.desc()).limit(limit + 1)
    if wanted.status is not None:
        ids = ids.where(reached.c.status == wanted.status.value)
    if wanted.queue is not None:
        ids = ids.where(reached.c.queue == wanted.queue)
    rows = await _query(database, select(*COLUMNS).where(turns.c.id.in_(ids)).order_by(*_NEWEST_FIRST))
    found = [record(row) for row in rows]
    if len(found) > limit:
        return found[:limit], _position(found[limit - 1])
    place = near.with_only_columns(turns.c.created_at, turns.c.id).offset(REACH - 1).limit(1)
    ends = await _query(database, place)
    if not ends:
        return found, None
    # Turns submitted since have moved this end towards newer turns: what is older comes with the next page.
    end = (ends[0]["created_at"], ends[0]["id"])
    return [one for one in found if _position(one) >= end], end


def having(**columns: object) -> list[ColumnElement[bool]]:
    """The terms for those columns whose value is not None."""
    return [turns.c[name] == value for name, value in columns.items() if value is not None]


async def query_list(
    database: Database,
    terms: Sequence[ColumnElement[bool]],
    status: TurnStatus | None,
    order: Sequence[ColumnElement[Any]],
    limit: int,
) -> list[TurnRecord]:
    """The first turns of a list, without their replies.

    Raises ListTooBroadError if a rare status or queue is searched among too many turns: there is no index for that, because it
    would slow down the hot path.
    """
    statement: Select[Any] = select(*COLUMNS).order_by(*order).limit(limit)
    if status is TurnStatus.PENDING:
        # Usually few turns are PENDING, and most have ended. A PENDING turn has a place or is scheduled: each has a partial
        # index, the two together have none. The literal is needed because a plan for any status could use neither.
        pending = (*terms, turns.c.status == literal_column("'PENDING'"))
        ids = select(turns.c.id).where(*pending).order_by(*order).limit(limit).correlate(None)
        placed, scheduled = ids.where(turns.c.seq.is_not(None)), ids.where(turns.c.seq.is_(None))
        statement = statement.where(turns.c.id.in_(union_all(placed, scheduled)))
    else:
        statement = statement.where(*terms, *having(status=status))
    return [record(row) for row in await _query(database, statement)]


async def _query(database: Database, statement: Select[Any]) -> list[DictRow]:
    try:
        return await database.query(statement)
    except DatabaseUnavailableError as error:
        if getattr(error.__cause__, "sqlstate", None) == _OUT_OF_TIME:
            raise ListTooBroadError from error
        raise


def record(row: Mapping[str, Any]) -> TurnRecord:
    """From a row with the columns of COLUMNS, and perhaps more."""
    fields = {name: row[name] for name in TurnRecord.__dataclass_fields__ if name in row}
    return TurnRecord(**{**fields, "status": TurnStatus(row["status"])})


def _position(turn: TurnRecord) -> Position:
    return turn.created_at, turn.id


def _key(row: Mapping[str, Any]) -> TurnKey:
    return TurnKey(row["tenant_id"], row["id"])


def _standing(row: Mapping[str, Any]) -> Standing:
    fields = {name: row[name] for name in Standing.__dataclass_fields__}
    return Standing(**{**fields, "status": TurnStatus(row["status"])})
