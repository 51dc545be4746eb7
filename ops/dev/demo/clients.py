"""The demo's clients: each submits turns to its own session over HTTP, faster than the replies arrive."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import aiohttp

from turnstile.ops.dev.demo.scenario import Line, Role

BETWEEN_LINES_SECONDS = 0.15
MAX_TRIES = 20
SCHEDULED_AFTER = timedelta(seconds=6)


@dataclass(slots=True)
class Ledger:
    """The accepted turns, which the final check compares with the database."""

    accepted: dict[UUID, Line] = field(default_factory=dict)
    """In the order of submission within a session."""
    due_at: dict[UUID, datetime] = field(default_factory=dict)

    def turns(self, part: str) -> list[UUID]:
        """The turns that have the given part in the demo."""
        return [turn_id for turn_id, line in self.accepted.items() if line.part == part]


async def talk(client: aiohttp.ClientSession, role: Role, ledger: Ledger) -> None:
    """Submits all lines of one session, in order, without waiting for the replies."""
    for place, line in enumerate(role.lines):
        body: dict[str, object] = {"input": line.text}
        if line.part:
            body["metadata"] = {"demo": line.part}
        due_at = datetime.now(UTC) + SCHEDULED_AFTER if line.part == "scheduled" else None
        if due_at:
            body["execute_at"] = due_at.isoformat()
        turn_id = await _submit(client, role.session_id, body, f"{role.session_id}/{place}")
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
