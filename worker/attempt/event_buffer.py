"""What an attempt has said and Redis has not been told yet: in its order, and bounded in events and in bytes.

Bytes are counted because an event may have 64 KiB: a thousand of them in one append are tens of megabytes within one time-out,
and then Redis is taken to be away, for all the other turns of the worker as well.
"""

from collections.abc import Iterable

from turnstile.streaming.event import EventKind, Saying, TurnEvent, pieces
from turnstile.turn.stored_json import encode

MAX_GATHERED = 1000
"""Events that wait for Redis. More, and they give way to one `reset`."""

MAX_GATHERED_BYTES = 8 * 1024 * 1024
"""Of events of the handler's own, likewise. Texts are bounded as a reply is."""

MAX_APPEND_BYTES = 1_000_000
"""Of what goes out in one append. What is left goes out in the next."""


class Gathered:
    """Sayings, and between them texts that still grow. Not for several threads."""

    def __init__(self) -> None:
        self._waiting: list[Saying | list[str]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_too_much(self) -> bool:
        """Redis has been away for long, or much is said at once."""
        return len(self._waiting) > MAX_GATHERED or self._bytes > MAX_GATHERED_BYTES

    @property
    def sayings(self) -> list[Saying]:
        """All but the texts."""
        return [one for one in self._waiting if isinstance(one, Saying)]

    def add(self, saying: Saying, size: int) -> None:
        """`size` in bytes."""
        self._waiting.append(saying)
        self._bytes += size

    def add_text(self, text: str) -> None:
        """More of the text that was said last, or a new one behind a saying."""
        if self._waiting and isinstance(growing := self._waiting[-1], list):
            growing.append(text)
        else:
            self._waiting.append([text])

    def put(self, sayings: list[Saying]) -> None:
        """These and nothing else."""
        self._waiting = [*sayings]
        self._bytes = sum(len(one.data.encode()) for one in sayings)

    def take(self) -> list[Saying]:
        """All of it, the texts in pieces that fit into an event each."""
        taken: list[Saying] = []
        for one in self._waiting:
            taken += [one] if isinstance(one, Saying) else deltas(pieces("".join(one)))
        self.put([])
        return taken


def deltas(texts: Iterable[str]) -> list[Saying]:
    """A saying for each of the texts."""
    return [Saying(EventKind.DELTA, encode({"text": text})) for text in texts]


def portion(events: list[TurnEvent]) -> list[TurnEvent]:
    """As many of the first as go into one append; one at least, if there is one."""
    # Nearly always all of them, and then no text is encoded for it: a character has four bytes at most.
    if 4 * sum(len(event.saying.data) for event in events) <= MAX_APPEND_BYTES:
        return events
    size = 0
    for place, event in enumerate(events):
        size += len(event.saying.data.encode())
        if size > MAX_APPEND_BYTES and place:
            return events[:place]
    return events
