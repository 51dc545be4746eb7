"""What a running attempt has said so far, from the events of its stream. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from turnstile.streaming.event import EventId, EventKind, TurnEvent


@dataclass(frozen=True, slots=True)
class PartialReply:
    """What a reader has that has read every event up to `after`. A stream that resumes after it repeats
    nothing of this, and leaves nothing out."""

    text: str | None
    """None: unknown. The stream must be read from the start."""
    custom: tuple[Any, ...] = ()
    """The other events that the handler emitted, in order."""
    after: EventId | None = None
    """None: the start."""


UNKNOWN = PartialReply(None)


def fold_events(events: Iterable[TurnEvent]) -> PartialReply:
    """What the events of a turn's stream say, from its start to the last one before the end. UNKNOWN if
    some are missing."""
    text: list[str] = []
    custom: list[Any] = []
    after: EventId | None = None
    is_whole = True
    for event in events:
        if event.saying.kind.ends:
            # The reader gets the end from the stream.
            break
        is_whole = event.begins_anew or (is_whole and event.follows(after))
        after = event.id
        if after.n == 1:
            text, custom = [], []
        try:
            match event.saying.kind:
                case EventKind.RESET:
                    text = [_text_of(event)]
                case EventKind.DELTA:
                    text.append(_text_of(event))
                case EventKind.CUSTOM:
                    custom.append(json.loads(event.saying.data))
                case _:
                    pass
        except (ValueError, TypeError, LookupError, RecursionError):
            # No worker has written this.
            return UNKNOWN
    return PartialReply("".join(text), tuple(custom), after) if is_whole else UNKNOWN


def _text_of(event: TurnEvent) -> str:
    text = json.loads(event.saying.data)["text"]
    if not isinstance(text, str):
        raise TypeError("the text of an event must be a string")
    return text
