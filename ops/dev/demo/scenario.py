"""The scenario of the demo: the lines of each client and the special turns. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.examples.conversations import Conversation

OUTAGE_EVERY = 8
"""One session in OUTAGE_EVERY has a turn that fails for good until the operator has repaired the cause."""


@dataclass(frozen=True, slots=True)
class Line:
    """One turn to submit. `part` is its special part in the demo, if any."""

    text: str
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """One client: its session and its lines, in order."""

    session_id: str
    lines: tuple[Line, ...]


def cast(conversations: Sequence[Conversation]) -> list[Role]:
    """A role for each conversation. The last two contain a cancelled and a scheduled turn."""
    scripts = [[Line(remark) for remark in conversation.remarks] for conversation in conversations]
    for lines in scripts[::OUTAGE_EVERY]:
        lines[2] = Line(lines[2].text, "outage")
    scripts[-1][-1] = Line(scripts[-1][-1].text, "scheduled")
    scripts[-2][3] = Line(scripts[-2][3].text, "endless")
    return [
        Role(f"session-{conversation.name}", tuple(lines))
        for conversation, lines in zip(conversations, scripts, strict=True)
    ]
