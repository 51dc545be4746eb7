"""Server-sent events: what a client is told, and its form on the connection. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from turnstile.streaming.event import EventId, EventKind

HEARTBEAT = b": heartbeat\n\n"
"""A comment: clients ignore it, and proxies see that the connection lives."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event of a turn for a client. `data` is JSON text."""

    kind: EventKind
    data: str
    id: EventId | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One server-sent event of a wire. `data` has no line break, as compact JSON has none."""

    data: str
    name: str | None = None


def write(chunks: Sequence[Chunk], place: str | None) -> bytes:
    """The chunks of one event. Only the last has the id: a client that has received half of them gets all of them again."""
    written = []
    for number, chunk in enumerate(chunks, start=1):
        identified = f"id: {place}\n" if place is not None and number == len(chunks) else ""
        named = "" if chunk.name is None else f"event: {chunk.name}\n"
        written.append(f"{identified}{named}data: {chunk.data}\n\n")
    # A forged entry of the stream may have half of a surrogate pair, as an escape.
    return "".join(written).encode(errors="replace")


def read_fields(data: str) -> dict[str, Any]:
    """The object in the data of an event; empty if there is none: not only workers can write to the stream."""
    found = read_value(data)
    return found if isinstance(found, dict) else {}


def read_value(data: str) -> Any:
    """The JSON value in the data of an event; None if there is none."""
    try:
        return _DECODER.decode(data)
    except (ValueError, RecursionError):
        return None


def text_of(fields: dict[str, Any]) -> str:
    """The text of a `delta` or a `reset`."""
    text = fields.get("text")
    return text if isinstance(text, str) else ""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
