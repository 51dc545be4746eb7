"""Hints that a turn, or a session, has new events: one connection to Redis for all listeners of a process.

A hint carries only the kind of the last event, and may get lost: a listener also polls, a little less often each time. Whenever
hints may have been missed (the connection was new, or broke), all listeners are notified.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.subscribe import Channels, Heard, keep_hearing
from turnstile.streaming.event import EventKind

ENDS = frozenset(kind.value for kind in EventKind if kind.ends)


class Listener:
    """Waits for hints about one turn, or one session."""

    def __init__(self, *, only_ends: bool) -> None:
        self.only_ends = only_ends
        self.is_connected = False
        """Whether hints are heard now, as far as the process knows."""
        self._heard = asyncio.Event()
        self._has_ended = False

    def tell(self, *, of_an_end: bool = False) -> None:
        """Wakes the listener: there are new events, or may be."""
        self._has_ended |= of_an_end
        self._heard.set()

    def take_end(self) -> bool:
        """Whether a hint since the last call has said that the turn has ended."""
        ended, self._has_ended = self._has_ended, False
        return ended

    async def wait(self, seconds: float) -> bool:
        """Whether a hint came since the last wait, or comes within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        heard = self._heard.is_set()
        self._heard.clear()
        return heard


class EventHints:
    """The listeners of a process, and their shared connection, which opens with the first listener."""

    def __init__(self, redis: GuardedRedis) -> None:
        self._redis = redis
        self._listeners: dict[str, set[Listener]] = {}
        self._subscribed: set[str] = set()
        """The channels that are heard."""
        self._channels = Channels()
        self._channels.names = self._listeners.keys()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Closes the connection, and notifies all listeners."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self.tell_all()

    @contextmanager
    def listen(self, channel: str, *, only_ends: bool = False) -> Iterator[Listener]:
        """A listener, for as long as the block lasts. `only_ends`: hints about other events do not wake it."""
        listener = Listener(only_ends=only_ends)
        listener.is_connected = channel in self._subscribed
        self._listeners.setdefault(channel, set()).add(listener)
        self._channels.changed.set()
        if self._task is None or self._task.done():
            hearing = keep_hearing(self._redis, self._channels, self._tell, self._miss)
            self._task = asyncio.create_task(hearing, name="event-hints")
        try:
            yield listener
        finally:
            others = self._listeners[channel]
            others.discard(listener)
            if not others:
                del self._listeners[channel]
                self._subscribed.discard(channel)
                self._channels.changed.set()

    def _tell(self, heard: Heard) -> None:
        ended = heard.text in ENDS
        # No text: the subscription has just begun, and listeners have missed the hints since their last look.
        for_all = ended or heard.text is None
        if heard.text is None and heard.channel in self._listeners:
            self._subscribed.add(heard.channel)
        for listener in self._listeners.get(heard.channel, ()):
            listener.is_connected = True
            if for_all or not listener.only_ends:
                listener.tell(of_an_end=ended)

    def _miss(self) -> None:
        self._subscribed.clear()
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.is_connected = False
        self.tell_all()

    def tell_all(self) -> None:
        """Wakes all listeners: hints may have been missed, or the process stops."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell()
