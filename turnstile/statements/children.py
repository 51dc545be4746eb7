"""Children: turns that a turn has started, known by their parent and the call that started them (G21).

A child's id is made of its parent's id, the call's key and the parent's generation. So a handler that runs again, after a
retry, a crash or a join, finds the children it has instead of starting them twice; after a redrive those that have failed
get a successor, and no redrive touches them from then on. A child is recorded by `statements.submit.SUBMIT`, and only while its
parent's claim holds.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.turn.identifiers import uuid7
from turnstile.turn.settlement import JoinPolicy
from turnstile.turn.status import TurnStatus

# The newest of each call: an older one with its key is of an earlier generation.
READ_CHILDREN: LiteralString = """
SELECT DISTINCT ON (t.child_key) t.child_key, t.id, t.session_id, t.status FROM turns t
 WHERE t.parent_turn_id = %(parent)s AND t.child_key IS NOT NULL
 ORDER BY t.child_key, t.created_at DESC, t.id DESC
"""

READ_STATES: LiteralString = """
SELECT t.id, t.status, t.error_class, t.error FROM turns t
 WHERE t.id = ANY (%(ids)s::uuid[]) AND t.parent_turn_id = %(parent)s
"""

READ_OUTPUTS: LiteralString = """
SELECT m.turn_id, m.content FROM messages m
 WHERE m.turn_id = ANY (%(ids)s::uuid[]) AND m.role = 'assistant' AND m.kind = 'message'
"""

HAS_SUCCESSOR: LiteralString = """(
    t.child_key IS NOT NULL AND EXISTS (
        SELECT FROM turns n
         WHERE n.parent_turn_id = t.parent_turn_id AND n.child_key = t.child_key
           AND ('' || n.tenant_id) = t.tenant_id AND (n.created_at, n.id) > (t.created_at, t.id) OFFSET 0))
"""
"""Whether the parent of turn `t` has started its call anew since; never NULL. Run again as well, it would be done twice. The
archive leaves the successor in the table for as long as `t` is there."""


@dataclass(frozen=True, slots=True)
class KnownChild:
    """A child that an earlier run of its parent has started."""

    id: UUID
    session_id: str
    status: TurnStatus


@dataclass(frozen=True, slots=True)
class ChildState:
    """How far a child has come, and why it failed if it did."""

    status: TurnStatus
    error_class: str | None = None
    error: str | None = None


def make_child_id(parent_id: UUID, parent_created_at: datetime, generation: int, key: str) -> UUID:
    """Always the same for one call of one generation; stands beside its parent in the order of ids."""
    digest = hashlib.sha256(f"{parent_id}/{generation}/{key}".encode()).digest()
    return uuid7(int(parent_created_at.timestamp() * 1000), int.from_bytes(digest) >> 182)


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
    """The children of a turn, by the key of the call."""
    rows = await database.fetch(READ_CHILDREN, {"parent": parent_id})
    return {row["child_key"]: KnownChild(row["id"], row["session_id"], TurnStatus(row["status"])) for row in rows}


async def read_states(database: Database, parent_id: UUID, children: Sequence[UUID]) -> dict[UUID, ChildState]:
    """How far these children of a turn have come. Whatever is no child of it is left out."""
    rows = await database.fetch(READ_STATES, {"parent": parent_id, "ids": list(children)})
    return {row["id"]: ChildState(TurnStatus(row["status"]), row["error_class"], row["error"]) for row in rows}


async def read_outputs(database: Database, children: Sequence[UUID]) -> dict[UUID, Any]:
    """The replies of those that SUCCEEDED."""
    return {row["turn_id"]: row["content"] for row in await database.fetch(READ_OUTPUTS, {"ids": list(children)})}
