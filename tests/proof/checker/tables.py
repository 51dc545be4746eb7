"""What the database says of a run: what its triggers wrote down of every change, and its tables at rest.

Seconds are as everywhere in the evidence (`evidence`). What triggers wrote shares one numbering, `n`, which is the order in
which the changes of one row were made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`audit.jsonl`: one row of the audit table, written by a trigger on `turns` in the transaction that made the change.

    One for each insert, and for each update that changed status, fence, generation, seq or cancel_requested_at. Several
    changes of one row are in `n` order, because each had locked the row when it drew its number.
    """

    n: int
    at: float
    txid: int
    turn_id: str
    tenant: str
    session: str
    seq: int | None
    before: str | None
    after: str
    attempt_before: int | None
    attempt: int
    failures: int
    crashes: int
    generation: int
    fence_before: int | None
    fence: int
    worker: str | None
    lease_until: float | None
    lease_before: float | None
    execute_at: float | None
    send_at: float | None
    cancel_requested: bool
    error_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltChange:
    """`halts.jsonl`: a session was halted by a turn, or let go on; by a trigger on `sessions`, numbered like `audit.jsonl`."""

    n: int
    at: float
    txid: int
    tenant: str
    session: str
    before: str | None
    after: str | None
    """The turn that halts it from now on; None: it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinChange:
    """`joins.jsonl`: a turn began to wait for children, or was let go on; by a trigger, numbered like `audit.jsonl`."""

    n: int
    at: float
    turn_id: str
    after: Sequence[str] | None
    """The children that it waits for from now on; None: it goes on."""
    policy: str | None
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`turns.jsonl`: a row of the status table at rest."""

    turn_id: str
    tenant: str
    session: str
    seq: int | None
    status: str
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    fence: int
    lease_until: float | None
    send_at: float | None
    cancel_requested: bool
    error_class: str | None
    dead_lettered_at: float | None
    kind: str = "turn"
    parent: str | None = None
    """The turn that started it, or that it compensates."""
    child_key: str | None = None
    webhook: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """`messages.jsonl`: an entry of the history table at rest."""

    turn_id: str
    ordinal: int
    role: str
    kind: str
    content: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """`attempts.jsonl`: a row of `turn_attempts` at rest."""

    turn_id: str
    attempt: int
    fence: int
    generation: int
    worker: str | None
    finished_at: float
    outcome: str
    error_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedValue:
    """`values.jsonl`: a row of `turn_values` at rest, what a turn has done once."""

    turn_id: str
    key: str
    value: Any
    fence: int
    at: float
