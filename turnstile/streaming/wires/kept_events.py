"""The handler's own events of the present attempt, which a reset has to tell again. Pure.

In the wires of others, what takes back a text takes back the tool calls and the data around it, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from turnstile.streaming.wires.handler_event import HandlerEvent

MAX_KEPT_BYTES = 1_000_000
"""Of one reader. Beyond it, a reset tells none of them again: a thousand readers must not fill the memory."""

_OVERHEAD_BYTES = 200
"""What the objects of a small event take."""


@dataclass(slots=True)
class KeptEvents:
    _events: list[HandlerEvent] = field(default_factory=list)
    _bytes: int = 0

    def __iter__(self) -> Iterator[HandlerEvent]:
        return iter(self._events)

    def add(self, event: HandlerEvent, size: int) -> None:
        """`size`: of its JSON."""
        self._bytes += size + _OVERHEAD_BYTES
        if self._bytes > MAX_KEPT_BYTES:
            self._events.clear()
        else:
            self._events.append(event)

    def begin_attempt(self) -> None:
        """Forgets the events of the attempt before."""
        self._events.clear()
        self._bytes = 0
