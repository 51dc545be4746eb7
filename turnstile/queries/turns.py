"""Reads: what the API and the command line show of a turn and a session. Always within one tenant.

The statement of a list is made of the conditions that the caller's filters need. All go to the writer (never a replica): a client
that got a 202 finds its turn.

A read by id includes the archive. The archive is read after the table, only for turns that the table does not have: a turn moves
only from the table to the archive, in one commit, so the two reads can't miss it. Lists read only the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, LiteralString, TypeVar
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.archive.reads import (
    READ_ARCHIVED,
    READ_ARCHIVED_STANDINGS,
    WITH_MESSAGES,
    TurnKey,
    read_archived,
)
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.errors import DatabaseUnavailableError, ListTooBroadError
from turnstile.turn.status import TurnStatus

_OUT_OF_TIME = "57014"

REACH = 10_000
"""Turns that one page of a list reads at most: even from disk, this takes a fraction of the statement's time limit."""
_UNINDEXED = (TurnStatus.SUCCEEDED, TurnStatus.CANCELED)
NEWEST_FIRST: LiteralString = "t.created_at DESC, t.id DESC"

Answer = TypeVar("Answer")
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
    queued_at: datetime | None
    """When it began to wait in its generation: its submit, its schedule or its redrive. None in an old archive."""
    first_started_at: datetime | None
    """When its first attempt of the generation started."""
    started_at: datetime | None
    """When its present or last attempt started."""
    finished_at: datetime | None
    halted_by: UUID | None = None
    """The FAILED turn, perhaps this one, that halts the session: none of its turns is claimed."""
    dropped_at: datetime | None = None
    """When an operator gave the FAILED turn up (`turnstile dlq drop`)."""
    dropped_by: str | None = None
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


_HALTED_BY: LiteralString = """
    (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) AS halted_by"""

COLUMNS: LiteralString = f"t.*, {_HALTED_BY}"
"""What a list reads of a turn."""

_EQUAL: dict[str, LiteralString] = {
    "tenant_id": "t.tenant_id = %(tenant_id)s",
    "session_id": "t.session_id = %(session_id)s",
    "queue": "t.queue = %(queue)s",
    "status": "t.status = %(status)s",
    "error_class": "t.error_class = %(error_class)s",
}

_READ: LiteralString = f"""
SELECT {
    WITH_MESSAGES.format(
        messages="(SELECT * FROM messages WHERE turn_id = t.id)",
        webhooks="(SELECT * FROM webhooks WHERE turn_id = t.id)",
    )
}, {_HALTED_BY}
  FROM turns t WHERE t.id = ANY (%(ids)s::uuid[])
"""

_STANDINGS: LiteralString = """
SELECT id, tenant_id, session_id, status, attempt, fence, trace_id FROM turns WHERE id = ANY (%(ids)s::uuid[])
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
    trace_id: str


async def read_standings(database: Database, wanted: Sequence[TurnKey]) -> list[Standing | None]:
    """The state of many turns, in the order of `wanted`; None if the tenant has no such turn."""
    return await _find(database, _STANDINGS, READ_ARCHIVED_STANDINGS, wanted, _standing)


async def read_turns(database: Database, wanted: Sequence[TurnKey]) -> list[TurnRecord | None]:
    """Many turns with their replies, in the order of `wanted`; None if the tenant has no such turn."""
    return await _find(database, _READ, READ_ARCHIVED, wanted, record)


async def read_turn(database: Database, tenant_id: str, turn_id: UUID) -> TurnRecord | None:
    """One turn with its reply; None if the tenant has no such turn."""
    return (await read_turns(database, [TurnKey(tenant_id, turn_id)]))[0]


async def _find(
    database: Database,
    in_table: LiteralString,
    in_archive: LiteralString,
    wanted: Sequence[TurnKey],
    answer: Callable[[DictRow], Answer],
) -> list[Answer | None]:
    rows = await database.fetch(in_table, {"ids": [key.id for key in wanted]})
    found = {TurnKey(row["tenant_id"], row["id"]): row for row in rows}
    found |= await read_archived(database, in_archive, [key for key in wanted if key not in found])
    return [answer(found[key]) if key in found else None for key in wanted]


async def list_page(
    database: Database, wanted: TurnFilter, *, limit: int, before: Position | None = None
) -> tuple[list[TurnRecord], Position | None]:
    """The first `limit` matching turns after `before`, newest first, without their replies; and the `before` of the next page.
    None if there is no next page. Raises ListTooBroadError.

    There is no index for ended turns or for a queue, because it would slow down the hot path. Such a page reads REACH turns at
    most: it may have fewer than `limit` turns, or none, and still have a next page.
    """
    values: dict[str, Any] = {**asdict(wanted), "limit": limit + 1, "reach": REACH}
    terms = equal(tenant_id=wanted.tenant_id)
    if before is not None:
        terms.append("(t.created_at, t.id) < (%(before_at)s, %(before_id)s)")
        values["before_at"], values["before_id"] = before
    if wanted.session_id is not None or not (wanted.status in _UNINDEXED or (wanted.queue and wanted.status is None)):
        terms += equal(session_id=wanted.session_id, queue=wanted.queue)
        found = await query_list(database, terms, values, wanted.status, NEWEST_FIRST)
        return found[:limit], _position(found[limit - 1]) if len(found) > limit else None
    near = (
        f"SELECT t.id, t.created_at, t.status, t.queue FROM turns t WHERE {' AND '.join(terms)} ORDER BY {NEWEST_FIRST}"
    )
    matching = " AND ".join(equal(status=wanted.status, queue=wanted.queue))
    ids = f"SELECT t.id FROM ({near} LIMIT %(reach)s) t WHERE {matching} ORDER BY {NEWEST_FIRST} LIMIT %(limit)s"
    found = [record(row) for row in await _query(database, select_turns([f"t.id IN ({ids})"], NEWEST_FIRST), values)]
    if len(found) > limit:
        return found[:limit], _position(found[limit - 1])
    ends = await _query(database, f"{near} OFFSET %(reach)s - 1 LIMIT 1", values)
    if not ends:
        return found, None
    # Turns submitted since have moved this end towards newer turns: what is older comes with the next page.
    end = (ends[0]["created_at"], ends[0]["id"])
    return [one for one in found if _position(one) >= end], end


def equal(**columns: object) -> list[LiteralString]:
    """The conditions on those columns whose value is not None. The parameters have the names of the columns."""
    return [_EQUAL[name] for name, value in columns.items() if value is not None]


def select_turns(terms: Sequence[LiteralString], order: LiteralString) -> LiteralString:
    """The statement of a list of at most `%(limit)s` turns."""
    return f"SELECT {COLUMNS} FROM turns t WHERE {' AND '.join(('true', *terms))} ORDER BY {order} LIMIT %(limit)s"


async def query_list(
    database: Database,
    terms: Sequence[LiteralString],
    values: Parameters,
    status: TurnStatus | None,
    order: LiteralString,
) -> list[TurnRecord]:
    """The first turns of a list, without their replies.

    Raises ListTooBroadError if a rare status or queue is searched among too many turns: there is no index for that, because it
    would slow down the hot path.
    """
    if status is TurnStatus.PENDING:
        # Usually few turns are PENDING, and most have ended. A PENDING turn has a place or is scheduled: each has a partial
        # index, the two together have none. The literal is needed because a plan for any status could use neither.
        pending = " AND ".join((*terms, "t.status = 'PENDING'"))
        placed, scheduled = (
            f"(SELECT t.id FROM turns t WHERE {pending} AND t.seq {place} ORDER BY {order} LIMIT %(limit)s)"
            for place in ("IS NOT NULL", "IS NULL")
        )
        statement = select_turns([f"t.id IN ({placed} UNION ALL {scheduled})"], order)
    else:
        statement = select_turns([*terms, *equal(status=status)], order)
    return [record(row) for row in await _query(database, statement, values)]


async def _query(database: Database, statement: LiteralString, values: Parameters) -> list[DictRow]:
    try:
        return await database.fetch(statement, values)
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


def _standing(row: DictRow) -> Standing:
    return Standing(**{**row, "status": TurnStatus(row["status"])})
