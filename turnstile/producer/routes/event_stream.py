"""The response that is an event stream. It lasts until everything is told, the client disconnects, or the server shuts down.

The server reads at most one page ahead of the client.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnstile.producer.http.disconnect import half_closed, while_connected
from turnstile.streaming.wires.sse import HEARTBEAT
from turnstile.telemetry.metrics import STREAMS_OPEN

ToldBytes = AsyncGenerator[bytes | None, None]
"""What a stream says. None: nothing to say yet, which is the time for a heartbeat."""


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(
        self,
        telling: ToldBytes,
        heartbeat_seconds: float,
        place: AbstractContextManager[object],
        *,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`place`: what the stream occupies while it lasts. `on_disconnect`: called if the client leaves before the end."""
        # Proxies must not buffer the stream.
        super().__init__(headers={"X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._telling = telling
        self._heartbeat_seconds = heartbeat_seconds
        self._place = place
        self._on_disconnect = on_disconnect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place, _counted():
            ended = await while_connected(receive, self._tell(send, half_closed(scope)))
        if not ended and self._on_disconnect is not None:
            await self._on_disconnect()

    async def _tell(self, send: Send, half_closed: asyncio.Event) -> bool:
        """True, when everything has been sent."""
        sent_at = time.monotonic()
        async with aclosing(self._telling) as telling:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for told in telling:
                now = time.monotonic()
                # Only a write shows whether a client that has closed its sending half still reads.
                heartbeat_seconds = 0 if half_closed.is_set() else self._heartbeat_seconds
                if not told and now - sent_at < heartbeat_seconds:
                    continue
                await send({"type": "http.response.body", "body": told or HEARTBEAT, "more_body": True})
                sent_at = now
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True


@contextmanager
def _counted() -> Iterator[None]:
    STREAMS_OPEN.add(1)
    try:
        yield
    finally:
        STREAMS_OPEN.add(-1)
