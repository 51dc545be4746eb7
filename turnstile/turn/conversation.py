"""The messages of a session, and the versions of its history. Pure.

A history is always read at a version, because at a given version it never changes: a session's turns settle in `seq` order
(see docs/adr/0016), so the answered turns up to the last answered one are complete and final.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HistoryVersion:
    """The last answered turn of a session at one moment: its `seq`, and the claim that answered it.

    `seq` orders two versions. Only the claim, a random id, shows whether they are the same: a database that was restored, or
    lost its last commits in a failover, reaches the same `seq` again with other messages.
    """

    seq: int
    claim_id: UUID | None


EMPTY_HISTORY = HistoryVersion(0, None)
"""The version of a session of which no turn has been answered yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    turn_id: UUID
    seq: int
    ordinal: int
    role: str
    content: Any
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message with its content as JSON text. The text is None if it was too large and stayed in the table."""

    turn_id: UUID
    seq: int
    ordinal: int
    role: str
    text: str | None
    created_at: datetime


def join_inputs(inputs: Sequence[Any]) -> Any:
    """The input of a turn: the single input; several strings joined by a line break; otherwise a list."""
    if len(inputs) == 1:
        return inputs[0]
    return "\n".join(inputs) if all(isinstance(one, str) for one in inputs) else list(inputs)
