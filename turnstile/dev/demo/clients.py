"""The demo's clients: each submits turns to its own session over HTTP, faster than the replies arrive."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from turnstile.client import AsyncClient, TurnOptions
from turnstile.examples.conversations import Conversation

OUTAGE_EVERY = 8
"""One session in OUTAGE_EVERY has a turn that fails for good until the operator has repaired the cause."""
BETWEEN_LINES_SECONDS = 0.15
SCHEDULED_AFTER = timedelta(seconds=6)


@dataclass(frozen=True, slots=True)
class Line:
    """One turn to submit. `part` is its special part in the demo, if any."""

    text: str
    part: str | None = None


Sessions = dict[str, list[Line]]
"""The lines of each client's session, in order."""


def write_sessions(conversations: Sequence[Conversation]) -> Sessions:
    """A session for each conversation. The last two contain a cancelled and a scheduled turn."""
    scripts = [[Line(remark) for remark in conversation.remarks] for conversation in conversations]
    for lines in scripts[::OUTAGE_EVERY]:
        lines[2] = Line(lines[2].text, "outage")
    scripts[-1][-1] = Line(scripts[-1][-1].text, "scheduled")
    scripts[-2][3] = Line(scripts[-2][3].text, "endless")
    return {f"session-{one.name}": lines for one, lines in zip(conversations, scripts, strict=True)}


@dataclass(slots=True)
class Ledger:
    """The accepted turns, which the final check compares with the database."""

    accepted: dict[UUID, Line] = field(default_factory=dict)
    """In the order of submission within a session."""
    due_at: dict[UUID, datetime] = field(default_factory=dict)

    def turns(self, part: str) -> list[UUID]:
        """The turns that have the given part in the demo."""
        return [turn_id for turn_id, line in self.accepted.items() if line.part == part]


async def talk(client: AsyncClient, session_id: str, lines: Sequence[Line], ledger: Ledger) -> None:
    """Submits all lines of one session, in order, without waiting for the replies."""
    session = client.session(session_id)
    for line in lines:
        options: TurnOptions = {"metadata": {"demo": line.part}} if line.part else {}
        due_at = datetime.now(UTC) + SCHEDULED_AFTER if line.part == "scheduled" else None
        if due_at:
            options["execute_at"] = due_at
        turn_id = UUID((await session.submit(line.text, **options))["id"])
        ledger.accepted[turn_id] = line
        if due_at:
            ledger.due_at[turn_id] = due_at
        await asyncio.sleep(BETWEEN_LINES_SECONDS)
