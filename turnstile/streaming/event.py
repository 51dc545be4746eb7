"""The events of a turn's life: what they are called, how they are numbered, and when one may follow another. Pure.

An id is `<fence>-<n>`: the fence of the claim that said it, and its place in that attempt, from 1 and without gaps. Ids
rise strictly over all attempts of a turn, because fences do. The worker gives the numbers, so they go on after a flush
of Redis; a reader who missed some is given the whole text anew (`reset`).

A reader's text is the deltas since the last event that *begins anew*: the first of an attempt, or a reset.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson

MAX_PIECE_CHARACTERS = 16_384
"""Of text in one event: below 100 KB in UTF-8 whatever the script (R5). More text is more events."""

LAST_WORDS = 10**15
"""Where the numbers of an attempt begin that the reader's side gives, to close from the table what no worker closed: above
everything that a worker says, below every later attempt."""

_ID = re.compile(r"(\d{1,19})-(\d{1,19})")


class EventKind(StrEnum):
    """What an event tells."""

    METADATA = "metadata"
    """The first of each connection: which turn, and how it stands. It has no id."""
    STATUS = "status"
    """The turn is RUNNING (a new attempt: what was said before is void) or waits again."""
    DELTA = "delta"
    """More text."""
    CUSTOM = "custom"
    """Whatever JSON the handler emitted."""
    RESET = "reset"
    """The whole text so far; deltas go on from there."""
    END = "end"
    """SUCCEEDED with its output, or CANCELED."""
    ERROR = "error"
    """FAILED."""

    @property
    def ends(self) -> bool:
        """Whether nothing follows it."""
        return self in (EventKind.END, EventKind.ERROR)


class MalformedEventIdError(ValueError):
    """A text that is no event id."""


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """The place of an event in its turn's life."""

    fence: int
    n: int

    def __str__(self) -> str:
        return f"{self.fence}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> "EventId":
        """The id that `str` gave. Raises MalformedEventIdError."""
        matched = _ID.fullmatch(text)
        if matched is None or not text.isascii():
            raise MalformedEventIdError(text)
        found = cls(int(matched[1]), int(matched[2]))
        # Redis numbers with 64 bits, Postgres fences with 63.
        if max(found.fence, found.n) >= 2**63:
            raise MalformedEventIdError(text)
        return found


@dataclass(frozen=True, slots=True)
class Saying:
    """What an event says; `data` is JSON text."""

    kind: EventKind
    data: str

    @classmethod
    def of(cls, kind: EventKind, fields: Mapping[str, Any]) -> "Saying":
        """Of what is ours alone. Texts of others are not orjson's, which refuses halves of characters."""
        return cls(kind, orjson.dumps(fields).decode())


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """Something that was said, at its place."""

    id: EventId
    saying: Saying

    @property
    def begins_anew(self) -> bool:
        """Whether a reader who knows nothing of what was before can begin here."""
        return self.id.n == 1 or self.saying.kind is EventKind.RESET

    def follows(self, before: EventId | None) -> bool:
        """Whether a reader who has read up to `before` misses nothing if he goes on with this."""
        if self.begins_anew:
            return True
        return before is not None and (self.id.fence, self.id.n) == (before.fence, before.n + 1)


def name_stream(prefix: str, tenant_id: str, session_id: str, turn_id: UUID) -> str:
    """The key of a turn's stream, and the channel of the hints about it."""
    return f"{prefix}events:turn:{{{tenant_id}/{session_id}}}:{turn_id}"


def match_streams(prefix: str) -> str:
    """The pattern of all such keys."""
    return f"{prefix}events:turn:{{*}}:*"


def pieces(text: str) -> Iterator[str]:
    """The text in pieces that fit into an event each; one at least."""
    yield text[:MAX_PIECE_CHARACTERS]
    for start in range(MAX_PIECE_CHARACTERS, len(text), MAX_PIECE_CHARACTERS):
        yield text[start : start + MAX_PIECE_CHARACTERS]


def numbered(fence: int, first: int, sayings: Iterable[Saying]) -> list[TurnEvent]:
    """The sayings at consecutive places of an attempt."""
    return [TurnEvent(EventId(fence, first + place), saying) for place, saying in enumerate(sayings)]
