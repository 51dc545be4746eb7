"""The events of an attempt that are not in Redis yet: in order, and bounded in number and in bytes.

Bytes are counted because an event may have 64 KiB. A thousand of them in one append are tens of megabytes within one timeout;
then Redis would count as away, for all other turns of the worker as well.
"""

from collections.abc import Iterable

from turnstile.streaming.event import EventKind, Saying, TurnEvent, pieces
from turnstile.turn.stored_json import encode

MAX_GATHERED = 1000
"""The most events that wait for Redis. If there are more, one `reset` replaces them."""

MAX_GATHERED_BYTES = 8 * 1024 * 1024
"""The same bound for the bytes of all of them but the texts, which are bounded like a reply."""

MAX_APPEND_BYTES = 1_000_000
"""The most bytes in one append. Further events go into the next one."""


class Gathered:
    """A buffer of sayings, and of texts between them that still grow. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[Saying | list[str]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_too_much(self) -> bool:
        """Whether a bound is exceeded: Redis has been away for long, or the handler emits much at once."""
        return len(self._waiting) > MAX_GATHERED or self._bytes > MAX_GATHERED_BYTES

    @property
    def sayings(self) -> list[Saying]:
        """All waiting events but the texts."""
        return [one for one in self._waiting if isinstance(one, Saying)]

    def add(self, saying: Saying) -> None:
        self._waiting.append(saying)
        self._bytes += len(saying.data.encode())

    def add_text(self, text: str) -> None:
        """Extends the last text, or begins a new one after a saying."""
        if self._waiting and isinstance(growing := self._waiting[-1], list):
            growing.append(text)
        else:
            self._waiting.append([text])

    def put(self, sayings: list[Saying]) -> None:
        self._waiting = [*sayings]
        self._bytes = sum(len(one.data.encode()) for one in sayings)

    def take(self) -> list[Saying]:
        """Empties the buffer and returns its content; texts are split into pieces that each fit into one event."""
        taken: list[Saying] = []
        for one in self._waiting:
            taken += [one] if isinstance(one, Saying) else deltas(pieces("".join(one)))
        self.put([])
        return taken


def deltas(texts: Iterable[str]) -> list[Saying]:
    return [Saying(EventKind.DELTA, encode({"text": text})) for text in texts]


def portion(events: list[TurnEvent]) -> list[TurnEvent]:
    """As many of the first events as fit into one append; at least one, if there is one."""
    # Nearly always all of them fit. This check encodes no text: a character has four bytes at most.
    if 4 * sum(len(event.saying.data) for event in events) <= MAX_APPEND_BYTES:
        return events
    size = 0
    for place, event in enumerate(events):
        size += len(event.saying.data.encode())
        if size > MAX_APPEND_BYTES and place:
            return events[:place]
    return events
