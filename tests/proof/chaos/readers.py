"""The readers of a run: each follows one turn's events to the end, over broken connections, and records what it got."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import httpx

from tests.proof.chaos.journal import Journal
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.evidence import StreamRead

ENDS = frozenset({"end", "error"})
CONNECTIONS = 60
"""After so many a reader gives up."""
IMPATIENCE = 0.25
"""How often a reader breaks off by itself, to come back."""


@dataclass(slots=True)
class Reader:
    """Follows one turn. `next_api` names the API to try next."""

    name: str
    turn_id: str
    headers: dict[str, str]
    http: httpx.AsyncClient
    next_api: Any
    journal: Journal
    rng: random.Random
    after: str | None = None

    async def follow(self, stopping: asyncio.Event) -> None:
        for _ in range(CONNECTIONS):
            ended = await self._connect()
            if ended or await pause(self.rng.uniform(0.05, 0.4), stopping):
                return

    async def _connect(self) -> bool:
        after, events = self.after, []
        enough = self.rng.randint(1, 12) if self.rng.random() < IMPATIENCE else None
        headers = self.headers | ({"Last-Event-ID": after} if after is not None else {})
        url = f"{self.next_api()}/v1/turns/{self.turn_id}/events"
        try:
            async with self.http.stream("GET", url, headers=headers) as response:
                if response.status_code != httpx.codes.OK:
                    return False
                fields: dict[str, str] = {}
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    if line:
                        fields[name] = value
                        continue
                    # A comment keeps the connection alive, and is not an event.
                    if "event" in fields:
                        events.append({"id": fields.get("id"), "event": fields["event"], "data": fields["data"]})
                        self.after = fields.get("id", self.after)
                        if len(events) == enough:
                            break
                    fields = {}
        except httpx.HTTPError:
            pass
        self.journal.write(StreamRead(reader=self.name, turn_id=self.turn_id, after=after, events=events))
        return bool(events) and events[-1]["event"] in ENDS
