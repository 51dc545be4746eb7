"""The events of a turn, as a reader gets them. Pure.

Only `Delta` and `Reset` change the text: the first adds to it, the second replaces it. A stream has one `End`, its last event.
The `id` of an event is a place to go on from; `Begin` has none.
"""

import json
from dataclasses import dataclass
from typing import Any

from turnstile.client.documents import Status as TurnStatus
from turnstile.client.documents import TurnError


@dataclass(frozen=True, slots=True)
class Begin:
    """The first event: which turn this is, and how it stands."""

    turn_id: str
    session_id: str
    status: TurnStatus
    attempt: int
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The turn runs, or waits again: then `outcome` says why, such as `retried`, and `after_seconds` for how long."""

    status: TurnStatus
    attempt: int
    outcome: str | None = None
    after_seconds: float | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """More text: append it."""

    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """The whole text so far: replace what you have. Empty when a new attempt begins."""

    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    """What the handler emitted besides text."""

    data: Any
    id: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The last event. If `output` is a string, it is the text."""

    turn_id: str
    status: TurnStatus
    output: Any = None
    error: TurnError | None = None
    """If FAILED."""
    reason: str | None = None
    """If CANCELED: why."""
    id: str | None = None


Event = Begin | Status | Delta | Reset | Custom | End


def read_event(kind: str, data: str, event_id: str | None) -> Event | None:
    """The event that the API sent; None if this version does not know its kind. Raises ValueError or LookupError."""
    said = json.loads(data)
    match kind:
        case "metadata":
            return Begin(said["turn_id"], said["session_id"], said["status"], said["attempt"])
        case "status":
            return Status(said["status"], said["attempt"], said.get("outcome"), said.get("after_seconds"), event_id)
        case "delta":
            return Delta(said["text"], event_id)
        case "reset":
            return Reset(said["text"], event_id)
        case "custom":
            return Custom(said, event_id)
        case "end" | "error":
            return End(
                said["turn_id"], said["status"], said.get("output"), said.get("error"), said.get("reason"), event_id
            )
        case _:
            return None
