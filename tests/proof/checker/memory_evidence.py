"""What a run leaves behind about memory and conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAct:
    """`memory_acts.jsonl`: one call of a handler on its session's working memory, as the handler saw it."""

    at: float
    until: float
    turn_id: str
    tenant: str
    session: str
    fence: int
    op: str
    """get, find, set, delete, clear (all items with a label)"""
    outcome: str
    """ok; conflict: the version was not the expected one; not kept; absent: there was nothing to delete; superseded: the
    answer was that the turn is another's; unknown: it was not answered"""
    kind: str | None = None
    """None: of all kinds."""
    key: str | None = None
    label: str | None = None
    """clear: `tag:<tag>` or `context:<name>`"""
    expected: int | None = None
    """set: only if this is the version, or only if there is none (0)."""
    version: int | None = None
    """get: what was found, None for nothing. set: what was made."""
    value: Any = None
    """get: what was found. set: what was to be kept."""
    found: Mapping[str, int] | None = None
    """find: versions by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """`memory_changes.jsonl`: a durable item was written; by a trigger, numbered like `audit.jsonl`.

    A call that is repeated after a lost answer changes its item once more, and leaves its version as it is.
    """

    n: int
    at: float
    tenant: str
    session: str
    kind: str
    key: str
    version: int
    fence: int
    """The fence of the claim that it says it was written under."""
    gone: bool
    """It was deleted."""
    value: Any = None
    context: str | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem:
    """`memory_items.jsonl`: a durable item at rest."""

    tenant: str
    session: str
    kind: str
    key: str
    version: int
    gone: bool
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """`conversations.jsonl`: what is said in a session, in order and for as long as it is answered, and what must be answered."""

    tenant: str
    session: str
    name: str
    remarks: Sequence[str]
    replies: Sequence[str]
