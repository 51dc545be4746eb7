"""Children: turns that a turn has started, known by their parent and the call that started them.

A child's id is derived from its parent's id, span and generation and from the call's key. So a handler that runs again after a
retry, a crash or a join finds its children instead of starting them twice. The span id is random, and no other tenant knows it.
After a redrive of the parent, failed children get a successor, and are never redriven themselves from then on.
`statements.submit.SUBMIT` records a child, only while its parent's claim is valid.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.sealing.place import ERROR, REPLY, Place
from turnstile.turn.identifiers import begins_with, uuid7
from turnstile.turn.settlement import JoinPolicy
from turnstile.turn.status import TurnStatus

# The newest child of each call: an older one with the same key is of an earlier generation.
READ_CHILDREN: LiteralString = """
SELECT DISTINCT ON (t.child_key) t.child_key, t.id, t.session_id, t.status FROM turns t
 WHERE t.parent_turn_id = %(parent)s AND t.child_key IS NOT NULL
 ORDER BY t.child_key, t.created_at DESC, t.id DESC
"""

READ_STATES: LiteralString = """
SELECT t.id, t.tenant_id, t.session_id, t.status, t.error_class, t.error FROM turns t
 WHERE t.id = ANY (%(ids)s::uuid[]) AND t.parent_turn_id = %(parent)s
"""

READ_OUTPUTS: LiteralString = """
SELECT m.turn_id, m.content FROM messages m
 WHERE m.turn_id = ANY (%(ids)s::uuid[]) AND m.role = 'assistant' AND m.kind = 'message'
"""

# Up from the turn to its first ancestor, or to the first that is archived; `most` steps at most. NULL ends it: a condition on the
# parent in the join would offer the planner the index of all children.
READ_DEPTH: LiteralString = f"""
WITH RECURSIVE up (id, depth) AS (
    SELECT %(turn)s::uuid, 0
    UNION ALL
    SELECT t.parent_turn_id, up.depth + 1 FROM up JOIN turns t ON {by_key("t.id", "up.id")}
     WHERE up.depth < %(most)s
)
SELECT max(depth) AS depth FROM up WHERE id IS NOT NULL
"""

HAS_SUCCESSOR: LiteralString = f"""(
    t.child_key IS NOT NULL AND EXISTS (
        SELECT FROM turns n
         WHERE n.parent_turn_id = t.parent_turn_id AND n.child_key = t.child_key
           AND {off_index("n.tenant_id")} = t.tenant_id AND (n.created_at, n.id) > (t.created_at, t.id) OFFSET 0))
"""
"""Whether the parent of turn `t` has started the same call again since; never NULL. A redrive of `t` would do its work twice. The
successor is not archived before `t`."""


@dataclass(frozen=True, slots=True)
class KnownChild:
    """A child that an earlier run of its parent started."""

    id: UUID
    session_id: str
    status: TurnStatus


@dataclass(frozen=True, slots=True)
class ChildState:
    """A child's status, and its error if it failed."""

    status: TurnStatus
    error_class: str | None = None
    error: str | None = None
    session_id: str = field(default="", compare=False)


def make_child_id(parent_id: UUID, parent_created_at: datetime, parent_span_id: str, generation: int, key: str) -> UUID:
    """The same id for every run of one call in one generation. It sorts next to the parent's id.

    A redrive or a retry gives the parent another span, and another generation with it.
    """
    digest = hashlib.sha256(f"{parent_id}/{parent_span_id}/{generation}/{key}".encode()).digest()
    return uuid7(_milliseconds(parent_created_at), int.from_bytes(digest) >> 182)


def was_started_by(child_id: UUID, parent_created_at: datetime) -> bool:
    """Whether the turn that was created then has started this child, and not an earlier turn with the same id."""
    return begins_with(child_id, _milliseconds(parent_created_at))


def is_joined(states: Sequence[ChildState], policy: JoinPolicy) -> bool:
    """Whether nothing is left to wait for. `statements.join.IS_JOINED` says the same in SQL."""
    statuses = [state.status for state in states]
    if not any(status.is_open for status in statuses):
        return True
    match policy:
        case JoinPolicy.ALL:
            return any(status in {TurnStatus.FAILED, TurnStatus.CANCELED} for status in statuses)
        case JoinPolicy.ANY:
            return TurnStatus.SUCCEEDED in statuses


async def read_children(database: Database, parent_id: UUID) -> dict[str, KnownChild]:
    """The newest child of each call of a turn, by the key of the call."""
    rows = await database.fetch(READ_CHILDREN, {"parent": parent_id})
    return {row["child_key"]: KnownChild(row["id"], row["session_id"], TurnStatus(row["status"])) for row in rows}


async def read_depth(database: Database, turn_id: UUID, most: int) -> int:
    """How many ancestors a turn has: 0 for one that no turn has started, `most` for that many or more."""
    [row] = await database.fetch(READ_DEPTH, {"turn": turn_id, "most": most})
    return int(row["depth"])


async def read_states(database: Database, parent_id: UUID, children: Sequence[UUID]) -> dict[UUID, ChildState]:
    """The states of these children of a turn. Ids of other turns are left out."""
    rows = await database.fetch(READ_STATES, {"parent": parent_id, "ids": list(children)})
    return {
        row["id"]: ChildState(
            TurnStatus(row["status"]),
            row["error_class"],
            database.contents.show(row["error"], Place(row["tenant_id"], row["session_id"], row["id"], ERROR)),
            row["session_id"],
        )
        for row in rows
    }


async def read_outputs(database: Database, tenant_id: str, sessions: Mapping[UUID, str]) -> dict[UUID, Any]:
    """The replies by turn id, only for children that SUCCEEDED. `sessions`: the children, each with its session.

    Raises ContentsUnreadableError.
    """
    rows = await database.fetch(READ_OUTPUTS, {"ids": list(sessions)})
    return {
        row["turn_id"]: database.contents.open_json(
            row["content"], Place(tenant_id, sessions[row["turn_id"]], row["turn_id"], REPLY)
        )
        for row in rows
    }


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
