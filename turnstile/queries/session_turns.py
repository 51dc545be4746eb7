"""Which turn of a session comes next, for those who follow the session from turn to turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.queries.turns import Standing
from turnstile.statements.session_head import OPEN_HEAD
from turnstile.turn.status import TurnStatus

_REACH = 100
"""Turns that a look passes over at most. They are those after a turn that was put to work again, and have ended before that."""

# `next` is in the order of the index, which is that of the session. A turn that has ended is new to a reader if it has ended
# since the reader's turn was put to work.
LOOK_AHEAD: LiteralString = f"""
SELECT w.ord, coalesce(s.last_seq, 0) AS last_seq, f.role, f.id, f.tenant_id, f.session_id, f.status, f.attempt, f.fence,
       f.trace_id, f.seq, f.queued_at
  FROM unnest(%(ords)s::int[], %(tenants)s::text[], %(sessions)s::text[], %(named)s::uuid[], %(seqs)s::bigint[],
              %(sinces)s::timestamptz[]) w (ord, tenant_id, session_id, named, seq, since)
  LEFT JOIN LATERAL (
       SELECT x.last_seq FROM sessions x WHERE x.tenant_id = w.tenant_id AND x.session_id = w.session_id) s ON true
  LEFT JOIN LATERAL (
       (SELECT 'named' AS role, t.* FROM turns t WHERE {by_key("t.id", "w.named")})
        UNION ALL
       (SELECT 'next' AS role, n.* FROM (
               SELECT t.* FROM turns t
                WHERE t.tenant_id = w.tenant_id AND t.session_id = w.session_id AND t.seq > w.seq
                ORDER BY t.seq LIMIT {_REACH}) n
         WHERE n.finished_at IS NULL OR w.since IS NULL OR n.finished_at >= w.since
         ORDER BY n.seq LIMIT 1)
        UNION ALL
       (SELECT 'head' AS role, h.* FROM ({OPEN_HEAD.format(of="w")}) h)) f ON true
"""


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A turn that has its place in its session."""

    standing: Standing
    seq: int
    queued_at: datetime


@dataclass(frozen=True, slots=True)
class Told:
    """Up to where a reader knows the session: a turn that it knows to its end."""

    seq: int
    queued_at: datetime | None
    """When that turn was put to work. None: the reader knows of no turn, so each that comes later is new."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a reader asks for."""

    tenant_id: str
    session_id: str
    told: Told | None = None
    named: UUID | None = None
    """A turn that the reader has heard of."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What there is of a session for a reader."""

    last_seq: int
    """Of the last turn that has a place; 0 if there is no such session."""
    named: SessionTurn | None
    following: SessionTurn | None
    """The first turn after the one that was told: open, or ended since."""
    head: SessionTurn | None
    """The first open turn of all."""

    @property
    def next(self) -> SessionTurn | None:
        """The turn to tell after the one that was told. It may be an earlier one, which was put to work again."""
        if self.following is not None and self.following.standing.status.is_terminal:
            return self.following
        return self.head


async def look_ahead(database: Database, wanted: Sequence[Look]) -> list[Ahead]:
    """In the order of `wanted`."""
    rows = await database.fetch(
        LOOK_AHEAD,
        {
            "ords": list(range(len(wanted))),
            "tenants": [look.tenant_id for look in wanted],
            "sessions": [look.session_id for look in wanted],
            "named": [look.named for look in wanted],
            "seqs": [None if look.told is None else look.told.seq for look in wanted],
            "sinces": [None if look.told is None else look.told.queued_at for look in wanted],
        },
    )
    found: list[dict[str, SessionTurn | None]] = [{} for _ in wanted]
    last = [0] * len(wanted)
    for row in rows:
        last[row["ord"]] = row["last_seq"]
        if row["role"] is not None:
            found[row["ord"]][row["role"]] = _turn_of(row, wanted[row["ord"]])
    return [Ahead(seq, of.get("named"), of.get("next"), of.get("head")) for seq, of in zip(last, found, strict=True)]


def _turn_of(row: DictRow, look: Look) -> SessionTurn | None:
    """None: the named turn is another session's, or has no place yet."""
    if row["seq"] is None or (row["tenant_id"], row["session_id"]) != (look.tenant_id, look.session_id):
        return None
    fields = {name: row[name] for name in Standing.__dataclass_fields__}
    standing = Standing(**{**fields, "status": TurnStatus(row["status"])})
    return SessionTurn(standing, row["seq"], row["queued_at"])
