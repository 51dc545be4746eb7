"""What is said in a session, and as of when. Pure.

A history is never asked for without its version, because as of one version it can't change any more: a session's turns settle
in `seq` order (see docs/adr/0021), so the answered turns up to the last answered one are complete, and stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HistoryVersion:
    """The last answered turn of a session at some moment: its `seq`, and the claim it was answered under.

    `seq` says which of two versions is newer. Whether two are the same is said by the claim, which is random: a database
    that was restored, or has lost its last commits in a failover, comes to the same `seq` again with something else said.
    """

    seq: int
    claim_id: UUID | None


NOTHING_SAID = HistoryVersion(0, None)
"""No turn of the session has been answered yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that was said."""

    turn_id: UUID
    seq: int
    ordinal: int
    role: str
    content: Any
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """The same with its content as JSON text; None where it was left in the table for its size."""

    turn_id: UUID
    seq: int
    ordinal: int
    role: str
    text: str | None
    created_at: datetime


LAST_ANSWERED: LiteralString = """
    SELECT a.seq, a.claim_id FROM turns a
     WHERE a.tenant_id = {of}.tenant_id AND a.session_id = {of}.session_id AND a.seq < {before}
       AND a.status = 'SUCCEEDED'
     ORDER BY a.seq DESC LIMIT 1
"""
"""The version before a `seq`: `{of}` is whatever has the session's `tenant_id` and `session_id`. Read backwards in the index
of sessions and seqs: it costs one row, and one more for each turn since then that ended otherwise."""


def join_inputs(inputs: Sequence[Any]) -> Any:
    """What the user said in a turn: the one input, or the merged ones: strings joined by a line break, else a list."""
    if len(inputs) == 1:
        return inputs[0]
    return "\n".join(inputs) if all(isinstance(one, str) for one in inputs) else list(inputs)
