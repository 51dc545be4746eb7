"""The events of a turn: their kinds, their numbers, and which event may follow another. Pure.

An id is `<fence>-<n>`: the fence of the claim that produced the event, and its number in that attempt, from 1 and without
gaps, except before a `reset`. Ids rise strictly over all attempts of a turn, because fences do. The worker assigns the numbers,
so they continue after a flush of Redis; a reader that missed events gets the whole text again (`reset`).

A reader's text is the deltas since the last event that *restarts* the text: the first of an attempt, or a reset.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson

MAX_PIECE_CHARACTERS = 16_384
"""Characters of text in one event: below 100 KB in UTF-8 in any script. A longer text becomes several events."""

LAST_WORDS = 10**15
"""First number of an attempt's events that the reader's side makes from the table, when no worker has published the end. Above
all numbers of a worker, and below every later attempt."""

_ID = re.compile(r"(\d{1,19})-(\d{1,19})")


class EventKind(StrEnum):
    METADATA = "metadata"
    """The first event of each connection: the turn and its status. It has no id."""
    STATUS = "status"
    """The turn is RUNNING (a new attempt: all earlier text is void) or waits again."""
    DELTA = "delta"
    """More text."""
    CUSTOM = "custom"
    """JSON that the handler emitted."""
    RESET = "reset"
    """The whole text so far; deltas go on from there."""
    END = "end"
    """SUCCEEDED with its output, or CANCELED."""
    ERROR = "error"
    """FAILED."""
    UNREADABLE = "unreadable"
    """An entry of a newer worker, or of no worker: it only takes its place. No client gets it, and no worker writes it."""

    @property
    def ends(self) -> bool:
        """Whether no event follows it."""
        return self in (EventKind.END, EventKind.ERROR)


_READABLE = frozenset(kind.value for kind in EventKind) - {EventKind.UNREADABLE.value}


class MalformedEventIdError(ValueError):
    """A text that is not an event id."""


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """The place of an event in its turn."""

    fence: int
    n: int

    def __str__(self) -> str:
        return f"{self.fence}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> "EventId":
        """Reads the text that `str` makes of an id. Raises MalformedEventIdError."""
        matched = _ID.fullmatch(text)
        if matched is None or not text.isascii():
            raise MalformedEventIdError(text)
        found = cls(int(matched[1]), int(matched[2]))
        # Ids in Redis have 64 bits, fences in Postgres 63.
        if max(found.fence, found.n) >= 2**63:
            raise MalformedEventIdError(text)
        return found


@dataclass(frozen=True, slots=True)
class Saying:
    """The content of an event; `data` is JSON text."""

    kind: EventKind
    data: str

    @classmethod
    def read(cls, kind: str, data: str) -> "Saying":
        """What an entry of the stream says. Not only workers can write there.

        A line break in `data` would end the event for its reader, and begin another: JSON that we write has none.
        """
        if kind not in _READABLE or "\n" in data or "\r" in data:
            return cls(EventKind.UNREADABLE, "")
        return cls(EventKind(kind), data)

    @classmethod
    def of(cls, kind: EventKind, fields: Mapping[str, Any]) -> "Saying":
        """Only for fields that this program makes. Other texts may contain half of a surrogate pair, which orjson refuses."""
        return cls(kind, orjson.dumps(fields).decode())


@dataclass(frozen=True, slots=True)
class TurnEvent:
    id: EventId
    saying: Saying

    @property
    def begins_anew(self) -> bool:
        """Whether a reader that knows no earlier event can begin here."""
        return self.id.n == 1 or self.saying.kind is EventKind.RESET

    def follows(self, before: EventId | None) -> bool:
        """Whether a reader that has read up to `before` misses nothing if it continues with this event."""
        if self.begins_anew:
            return True
        return before is not None and (self.id.fence, self.id.n) == (before.fence, before.n + 1)


def name_stream(prefix: str, tenant_id: str, session_id: str, turn_id: UUID) -> str:
    """The key of a turn's stream, and the channel of the hints about it."""
    return f"{prefix}events:turn:{{{tenant_id}/{session_id}}}:{turn_id}"


def name_session(prefix: str, tenant_id: str, session_id: str) -> str:
    """The channel of the hints that an attempt at a turn of the session begins: what `name_stream` begins with."""
    return f"{prefix}events:turn:{{{tenant_id}/{session_id}}}"


def match_streams(prefix: str) -> str:
    """The pattern of the keys of all streams."""
    return f"{prefix}events:turn:{{*}}:*"


def pieces(text: str) -> Iterator[str]:
    """Splits the text into pieces that fit into one event each; yields one at least."""
    yield text[:MAX_PIECE_CHARACTERS]
    for start in range(MAX_PIECE_CHARACTERS, len(text), MAX_PIECE_CHARACTERS):
        yield text[start : start + MAX_PIECE_CHARACTERS]


def numbered(fence: int, first: int, sayings: Iterable[Saying]) -> list[TurnEvent]:
    """Makes events with consecutive numbers of one attempt."""
    return [TurnEvent(EventId(fence, first + place), saying) for place, saying in enumerate(sayings)]
