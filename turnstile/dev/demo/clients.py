"""The demo's clients: each submits turns to its own session over HTTP, faster than the replies arrive."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import aiohttp

from turnstile.examples.conversations import Conversation

OUTAGE_EVERY = 8
"""One session in OUTAGE_EVERY has a turn that fails for good until the operator has repaired the cause."""
BETWEEN_LINES_SECONDS = 0.15
MAX_TRIES = 20
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


async def talk(client: aiohttp.ClientSession, session_id: str, lines: Sequence[Line], ledger: Ledger) -> None:
    """Submits all lines of one session, in order, without waiting for the replies."""
    for place, line in enumerate(lines):
        body: dict[str, object] = {"input": line.text}
        if line.part:
            body["metadata"] = {"demo": line.part}
        due_at = datetime.now(UTC) + SCHEDULED_AFTER if line.part == "scheduled" else None
        if due_at:
            body["execute_at"] = due_at.isoformat()
        turn_id = await _submit(client, session_id, body, f"{session_id}/{place}")
        ledger.accepted[turn_id] = line
        if due_at:
            ledger.due_at[turn_id] = due_at
        await asyncio.sleep(BETWEEN_LINES_SECONDS)


async def _submit(client: aiohttp.ClientSession, session_id: str, body: dict[str, object], key: str) -> UUID:
    for _ in range(MAX_TRIES):
        try:
            # The key makes the retry safe: the same request gives the same turn.
            headers = {"Idempotency-Key": key}
            async with client.post(f"/v1/sessions/{session_id}/turns", json=body, headers=headers) as answer:
                if answer.status != 503:
                    answer.raise_for_status()
                    return UUID((await answer.json())["id"])
                pause = float(answer.headers.get("Retry-After", "1"))
        except (aiohttp.ClientConnectionError, TimeoutError):
            pause = 0.2
        await asyncio.sleep(pause)
    raise RuntimeError(f"no answer to {key} after {MAX_TRIES} tries")
