"""The scenario of the demo: the lines of each client and the special turns. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from turnstile.examples.conversations import Conversation

OUTAGE_EVERY = 8
"""One session in OUTAGE_EVERY has a turn that fails for good until the operator has repaired the cause."""
SCHEDULED_AFTER = timedelta(seconds=6)
SESSIONS = 40
MAX_TURNS = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One turn to submit. `part` is its special part in the demo, if any."""

    text: str
    part: str | None = None
    scheduled_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """One client: its session and its lines, in order."""

    session_id: str
    lines: tuple[Line, ...]


def cast(conversations: Sequence[Conversation]) -> list[Role]:
    """A role for each conversation. The last two contain a cancelled and a scheduled turn."""
    return [_role(place, conversation) for place, conversation in enumerate(conversations[:SESSIONS])]


def _role(place: int, conversation: Conversation) -> Role:
    lines = [Line(remark) for remark in conversation.remarks[:MAX_TURNS]]
    if place % OUTAGE_EVERY == 0:
        lines[2] = Line(lines[2].text, "outage")
    if place == SESSIONS - 1:
        lines[-1] = Line(lines[-1].text, "scheduled", SCHEDULED_AFTER)
    if place == SESSIONS - 2:
        lines[3] = Line(lines[3].text, "endless")
    return Role(f"session-{conversation.name}", tuple(lines))
