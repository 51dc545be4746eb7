"""A server, a worker in the same process, and a handler that follows the test's script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import httpx

from tests.producer.api.sse_client import Served, Transcript, read_events, serving
from tests.support.process_roles import url_of
from tests.support.processors import message_about, processing
from tests.support.redis_hands import OwnEventWriter, OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.handler import Handler
from turnstile.ops.roles.kinds import Kind
from turnstile.telemetry.tracing import Traces
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.processor import Processor


class Script:
    """What the handler does next: what it emits, and at last what it returns or raises."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.contexts: list[Context] = []

    async def play(self, turn: Turn, ctx: Context) -> Any:
        """The handler."""
        self.contexts.append(ctx)
        while True:
            verb, what = await self._lines.get()
            match verb:
                case "emit":
                    await ctx.emit(what)
                case "return":
                    return what
                case "raise":
                    raise what

    def emit(self, *events: Any) -> None:
        """Let it say this."""
        for event in events:
            self._lines.put_nowait(("emit", event))

    def reply(self, reply: Any) -> None:
        """Let it return."""
        self._lines.put_nowait(("return", reply))

    def fail(self, error: Exception) -> None:
        """Let it raise."""
        self._lines.put_nowait(("raise", error))


class Conversation:
    """One tenant's turns, and the worker that answers them."""

    def __init__(self, settings: Settings, served: Served, client: httpx.AsyncClient, processor: Processor) -> None:
        self.settings = settings
        self.served = served
        self.client = client
        self.script = Script()
        self._processor = processor
        self._tasks: set[asyncio.Task[Any]] = set()

    async def submit(self, session: str = "s", headers: dict[str, str] | None = None) -> UUID:
        """Submits a turn, which no worker has taken yet."""
        answer = await self.client.post(f"/v1/sessions/{session}/turns", json={"input": "hi"}, headers=headers or {})
        return UUID(answer.json()["id"])

    def work(self, turn_id: UUID, session: str = "s") -> asyncio.Task[Any]:
        """The worker takes the session's message."""
        task = asyncio.create_task(self._processor.process(message_about(turn_id, session, "acme")))
        self._tasks.add(task)
        return task

    def follow(self, turn_id: UUID, **parameters: str) -> tuple[Transcript, asyncio.Task[None]]:
        """Begins to read the turn's events."""
        heard = Transcript()
        return heard, asyncio.create_task(read_events(self.client, turn_id, heard, **parameters))

    @property
    def listeners(self) -> int:
        """How many requests follow a turn or wait for its end."""
        hints = self.served.app.state.backend.watch._hints
        return sum(map(len, hints._listeners.values()))

    async def leave(self) -> None:
        """Stops what still runs."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def conversing(
    settings: Settings,
    handler: Handler | None = None,
    *,
    served_by: Settings | None = None,
    queues: Any = None,
    traces: Traces = None,
) -> AsyncIterator[Conversation]:
    """All of it, on the real stack. The server may have settings of its own, for instance another way to Postgres."""
    lock = OwnSessionLock(settings)
    worker = DatabasePlace(url_of(Kind.WORKER, settings.database_url))
    emitters = Emitters(settings, OwnEventWriter(settings))
    async with (
        Database(worker, "worker", size=4, pinned=True, contents=read_contents(settings)) as database,
        serving(served_by or settings) as served,
    ):
        async with served.client() as client:
            conversation: Conversation
            play = Handler(lambda turn, ctx: conversation.script.play(turn, ctx))
            with processing(
                settings, database, lock, "worker-a", handler or play, emitters, queues=queues, traces=traces
            ) as processor:
                conversation = Conversation(settings, served, client, processor)
                yield conversation
                await conversation.leave()
        await emitters.close()
    await lock.close()
