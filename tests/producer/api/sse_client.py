"""What reads events as a client does: over a socket, from a real server, and on after each break where it was."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tests.producer.api.calls import KEYS
from tests.producer.api.plain_server import running
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app, server_config
from turnstile.producer.server import Server


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was received."""

    kind: str
    data: Any
    id: str | None

    @property
    def place(self) -> tuple[int, ...]:
        """Its id as numbers."""
        return tuple(map(int, (self.id or "").split("-")))


@dataclass(slots=True)
class Transcript:
    """What a client makes of the events: the rules of the documentation, and nothing else."""

    events: list[Event] = field(default_factory=list)
    heartbeats: int = 0
    text: str = ""
    end: Event | None = None
    last_id: str | None = None

    def take(self, event: Event) -> None:
        """One more event."""
        assert self.end is None, "something came after the end"
        self.events.append(event)
        self.last_id = event.id or self.last_id
        match event.kind:
            case "status":
                self.text = "" if event.data["status"] == "RUNNING" else self.text
            case "delta":
                self.text += event.data["text"]
            case "reset":
                self.text = event.data["text"]
            case "end" | "error":
                self.end = event

    @property
    def kinds(self) -> list[str]:
        """In their order; deltas that follow one another are one."""
        kinds = [event.kind for event in self.events]
        return [kind for place, kind in enumerate(kinds) if kind != "delta" or kinds[place - 1 : place] != ["delta"]]

    @property
    def customs(self) -> list[Any]:
        """The handler's own events."""
        return [event.data for event in self.events if event.kind == "custom"]


@dataclass(frozen=True, slots=True)
class Served:
    """A server of this process."""

    app: FastAPI
    server: uvicorn.Server
    port: int

    @asynccontextmanager
    async def client(self, tenant: str = "acme", port: int | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A client with a socket, through another port if one is named."""
        headers = {"Authorization": f"Bearer {KEYS[tenant]}"}
        limits = httpx.Limits(max_connections=None)
        url = f"http://127.0.0.1:{port or self.port}"
        async with httpx.AsyncClient(
            base_url=url, headers=headers, limits=limits, timeout=30, trust_env=False
        ) as client:
            yield client


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Served]:
    """The application behind a socket."""
    app = create_app(settings)
    server = Server(server_config(settings, app, app.state.connections), lambda: app.state.backend.watch.stop())
    async with running(server) as port:
        yield Served(app, server, port)


async def read_events(
    client: httpx.AsyncClient, turn_id: Any, transcript: Transcript, *, resume: bool = True, **parameters: Any
) -> None:
    """One connection, until it ends. Raises httpx.HTTPError when it breaks."""
    headers = {"Last-Event-ID": transcript.last_id} if transcript.last_id and resume else {}
    url = f"/v1/turns/{turn_id}/events"
    async with client.stream("GET", url, headers=headers, params=parameters) as response:
        if response.status_code == 204:
            return
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                transcript.heartbeats += 1
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                transcript.take(Event(fields["event"], json.loads(fields["data"]), fields.get("id")))
                fields = {}


async def read_to_the_end(client: httpx.AsyncClient, turn_id: Any, transcript: Transcript | None = None) -> Transcript:
    """Connects again, as often as it takes."""
    transcript = transcript or Transcript()

    async def ended() -> bool:
        with suppress(httpx.HTTPError):
            await read_events(client, turn_id, transcript)
        return transcript.end is not None

    await until(ended)
    return transcript
