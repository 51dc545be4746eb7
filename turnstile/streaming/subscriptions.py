"""Hints that a turn has said something: one connection to Redis for all who listen in a process (R4).

A hint carries nothing but the kind of the last thing said, and may get lost: whoever waits for one also looks for himself,
a little less often each time. Whenever hints may have been missed (the connection was new, or broke), all that listen are
told to look.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import structlog
from redis.exceptions import RedisError

from turnstile.backends.backoff import ceiling
from turnstile.backends.redis.connect import connect_listener
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind

CHECK_SECONDS = 10.0
"""After so much silence the connection is asked whether it still lives; after twice that it is given up."""

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0

ENDS = frozenset(kind.value for kind in EventKind if kind.ends)

log = structlog.get_logger("turnstile.events")


class Listener:
    """One who waits for hints about one turn."""

    def __init__(self, *, only_ends: bool) -> None:
        self.only_ends = only_ends
        self._heard = asyncio.Event()
        self._told_of_an_end = False

    def tell(self, *, of_an_end: bool = False) -> None:
        """Something was said, or may have been."""
        self._told_of_an_end |= of_an_end
        self._heard.set()

    def take_end(self) -> bool:
        """Whether somebody has said since the last call that the turn has ended."""
        told, self._told_of_an_end = self._told_of_an_end, False
        return told

    async def wait(self, seconds: float) -> bool:
        """Whether something was heard since the last wait, or is within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        heard = self._heard.is_set()
        self._heard.clear()
        return heard


class EventHints:
    """The listeners of a process, and the connection that they share. It is opened for the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._redis = connect_listener(settings.memory_redis, settings.redis_timeout_seconds)
        self._listeners: dict[str, set[Listener]] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Tells everybody to look, and closes the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self.tell_all()
        await self._redis.aclose()

    @contextmanager
    def listen(self, channel: str, *, only_ends: bool = False) -> Iterator[Listener]:
        """A listener, for as long as the block lasts. `only_ends`: it is not told before the turn ends."""
        listener = Listener(only_ends=only_ends)
        self._listeners.setdefault(channel, set()).add(listener)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="event-hints")
        try:
            yield listener
        finally:
            others = self._listeners[channel]
            others.discard(listener)
            if not others:
                del self._listeners[channel]
                self._changed.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                log.warning(
                    "events.hints_away", error=f"{type(error).__name__}: {error}", listeners=len(self._listeners)
                )
            except Exception:
                # A bug of ours. Those who listen would wait for their next look, every time.
                log.exception("events.hints_failed", listeners=len(self._listeners))
            failures = 1 if time.monotonic() - began > LONGEST_PAUSE_SECONDS else failures + 1
            self.tell_all()
            await asyncio.sleep(ceiling(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))

    async def _listen(self) -> NoReturn:
        """For ever. Raises what broke the connection."""
        pubsub: Any = self._redis.pubsub()
        subscribed: set[str] = set()
        reading: asyncio.Task[Any] | None = None
        changed: asyncio.Task[Any] | None = None
        silent = 0
        try:
            await pubsub.connect()
            while True:
                self._changed.clear()
                await self._subscribe(pubsub, subscribed)
                reading = reading or asyncio.create_task(pubsub.get_message(timeout=CHECK_SECONDS))
                changed = changed or asyncio.create_task(self._changed.wait())
                await asyncio.wait({reading, changed}, return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    changed = None
                if not reading.done():
                    continue
                message, reading = reading.result(), None
                if message is not None:
                    silent = 0
                    self._tell(message)
                    continue
                silent += 1
                if silent > 1:
                    raise ConnectionError("no answer to a ping")
                await pubsub.ping()
        finally:
            for task in (reading, changed):
                if task is not None:
                    task.cancel()
                    await asyncio.wait({task})
            with suppress(RedisError, OSError):
                await pubsub.aclose()

    async def _subscribe(self, pubsub: Any, subscribed: set[str]) -> None:
        # All at once: a thousand readers that come after a restart are one command.
        wanted = self._listeners.keys()
        if missing := wanted - subscribed:
            await pubsub.subscribe(*missing)
        if left := subscribed - wanted:
            await pubsub.unsubscribe(*left)
        subscribed |= missing
        subscribed -= left

    def _tell(self, message: dict[str, Any]) -> None:
        listeners = self._listeners.get(message.get("channel") or "", ())
        match message["type"]:
            case "subscribe":
                # What was said between the look before and now, nobody was told of.
                everybody, of_an_end = True, False
            case "message":
                everybody = of_an_end = message["data"] in ENDS
            case _:
                return
        for listener in listeners:
            if everybody or not listener.only_ends:
                listener.tell(of_an_end=of_an_end)

    def tell_all(self) -> None:
        """Something may have been said, or it is time to go."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell()
