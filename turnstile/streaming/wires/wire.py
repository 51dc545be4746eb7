"""Which wires there are, and what one connection is told in them. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, assert_never

from turnstile.streaming.event import EventId
from turnstile.streaming.wires import ai_sdk
from turnstile.streaming.wires.ag_ui import AgUiEncoder
from turnstile.streaming.wires.ai_sdk import AiSdkEncoder
from turnstile.streaming.wires.sse import Chunk, SseEvent, write


class Wire(StrEnum):
    TURNSTILE = "turnstile"
    """Turnstile's own events, by their names."""
    AI_SDK = "ai-sdk"
    """The AI SDK's UI message stream, version 1."""
    AG_UI = "ag-ui"
    """The Agent User Interaction Protocol, 1.0."""

    @property
    def resumes_in_the_middle(self) -> bool:
        """Whether a client goes on after the last event that it has received. A client of the others can begin only at the
        start of a message: it gets the attempt again, after a reset."""
        return self is Wire.TURNSTILE

    @property
    def carries_turns(self) -> bool:
        """Whether one connection may tell of several turns. A message stream has one message."""
        return self is not Wire.AI_SDK

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of a response in this wire."""
        return ai_sdk.HEADERS if self is Wire.AI_SDK else {}


class Encoder(Protocol):
    """What turns the events of one turn into the chunks of one connection. Each is given all events in their order."""

    def encode(self, event: SseEvent) -> Sequence[Chunk]:
        """The chunks of the next event. There may be none."""
        ...


class OwnEncoder:
    """Turnstile's own wire: each event as it is."""

    def encode(self, event: SseEvent) -> Sequence[Chunk]:
        return [Chunk(event.data, event.kind.value)]


def encoder_of(wire: Wire, *, joins: bool, seen: EventId | None) -> Encoder:
    """`joins`: the client may have something of the turn already. `seen`: the last event that it names."""
    match wire:
        case Wire.TURNSTILE:
            return OwnEncoder()
        case Wire.AI_SDK:
            return AiSdkEncoder(joins=joins)
        case Wire.AG_UI:
            return AgUiEncoder(joins=joins, seen=seen)
        case _:
            assert_never(wire)


class Telling:
    """What one connection is told of one turn, as bytes."""

    def __init__(self, encoder: Encoder, *, seen: EventId | None, prefix: str = "") -> None:
        """`seen`: the last event that the client names. `prefix` comes before each id."""
        self._encoder = encoder
        self._seen = seen
        self._prefix = prefix

    def tell(self, event: SseEvent) -> bytes:
        """The bytes of the turn's next event; none if this wire has nothing to say about it.

        An event that the client has seen has no id: after another break, it would go on too early.
        """
        repeated = self._seen is not None and event.id is not None and event.id <= self._seen
        place = None if event.id is None or repeated else f"{self._prefix}{event.id}"
        return write(self._encoder.encode(event), place)
