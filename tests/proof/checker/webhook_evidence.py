"""What a run leaves behind about completion webhooks: what the table says was owed, and what a receiver really got."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedWebhook:
    """`webhooks.jsonl`: a row of `webhooks` at rest; one for each generation of a turn that has ended."""

    turn_id: str
    generation: int
    event: Mapping[str, Any]
    due_at: float | None
    tries: int
    delivered_at: float | None
    error: str | None = None

    @property
    def event_id(self) -> str:
        return f"turn_{self.turn_id}_{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """`posts.jsonl`: one POST as the receiver got it, written down before it was answered."""

    at: float
    event_id: str
    verified: bool
    """The signature fits id, timestamp and body."""
    digest: str
    """The digest of the body's bytes."""
    body: Any
    """As JSON; None if it was none."""
    answer: str
    """The status that it was answered with, or `hang` or `drop`."""

    @property
    def turn_id(self) -> str:
        """The turn that it names; the whole id if that is none of ours."""
        parts = self.event_id.split("_")
        return parts[1] if len(parts) == 3 else self.event_id
