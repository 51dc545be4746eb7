"""The core of a stream: the events of a turn, each once, through any number of connections, to the one end.

It connects again after the last event id that it has, as docs/event-flow.md says. A connection may break at any byte: an event
counts once it is whole, and its id comes with it.
"""

from collections.abc import Iterator
from typing import Any

from turnstile.client.asking import asked_pause, failure, may_repeat
from turnstile.client.calls import read, submit
from turnstile.client.documents import ENDED, TurnOptions
from turnstile.client.errors import UnexpectedAnswerError
from turnstile.client.events import Begin, Delta, End, Event, Reset, Status, read_event
from turnstile.client.exchange import Answer, Broken, Heard, Opened, Pause, Request, Steps, Tell, listen, open_stream
from turnstile.client.patience import Patience
from turnstile.client.terms import Terms

SILENCE_SECONDS = 45.0
"""Three heartbeats of the API. After that the connection is dead, although nobody has closed it."""
STEADY_SECONDS = 10.0
"""A connection that has lasted so long was a good one, even if nothing happened in the turn."""
NO_MORE = 204
OK = 200

_CUT_SHORT = Broken(reason="the stream ended before the turn did", sent=True)


def send(session_id: str, content: Any, key: str, options: TurnOptions, terms: Terms) -> Steps[None]:
    """Submits a turn, and tells its events."""
    turn = yield from submit(session_id, content, key, options, terms)
    yield from follow(turn["id"], None, terms)


def follow(turn_id: str, after: str | None, terms: Terms) -> Steps[None]:
    """Tells the turn's events behind the event `after`, and its end."""
    reader = _Reader(after)
    patience = terms.patience()
    while True:
        outcome = yield from open_stream(_events_of(turn_id, reader.last_id))
        fault: Answer | Broken
        if isinstance(outcome, Opened):
            fault = yield from _tell_events(reader, patience, terms)
            if reader.ended:
                return
        elif isinstance(outcome, Answer) and outcome.status == NO_MORE:
            turn = yield from read(turn_id, terms)
            if turn["status"] in ENDED:
                yield Tell(End(turn_id, turn["status"], turn["output"], turn["error"], turn["cancel_reason"]))
                return
            # It was redriven between the two requests.
            fault = _CUT_SHORT
        else:
            fault = outcome
        if isinstance(fault, Answer) and not may_repeat(fault):
            raise failure(fault, terms)
        pause = patience.after_failure(fault.took, asked_pause(fault))
        if pause is None:
            raise failure(fault, terms)
        yield Pause(pause)


def _events_of(turn_id: str, last_id: str | None) -> Request:
    headers = {"Accept": "text/event-stream"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    return Request("GET", f"/v1/turns/{turn_id}/events", headers=headers, silence_seconds=SILENCE_SECONDS)


def _tell_events(reader: "_Reader", patience: Patience, terms: Terms) -> Steps[Broken]:
    """Tells what one connection brings. Returns why it was the last of it."""
    lasted = 0.0
    while True:
        outcome = yield from listen()
        lasted += outcome.took
        if not isinstance(outcome, Heard):
            if lasted >= STEADY_SECONDS:
                patience.restore()
            return Broken(reason=outcome.reason, sent=True) if isinstance(outcome, Broken) else _CUT_SHORT
        before = reader.last_id
        try:
            events = list(reader.take(outcome))
        except (ValueError, LookupError, TypeError):
            raise UnexpectedAnswerError(terms.url, OK) from None
        if reader.last_id != before:
            patience.restore()
        for event in events:
            yield Tell(event)
        if reader.ended:
            return _CUT_SHORT


class _Reader:
    """What the caller was told, and where to go on."""

    def __init__(self, after: str | None) -> None:
        self.last_id = after
        self.ended = False
        self._begun = False
        # Whoever goes on behind an event has a text already.
        self._has_text = after is not None

    def take(self, heard: Heard) -> Iterator[Event]:
        """What to tell of it. A reader who only appends each Delta and takes each Reset has the text."""
        event = read_event(heard.kind, heard.data, heard.id or None)
        self.last_id = heard.id or self.last_id
        match event:
            case None:
                return
            case Begin():
                # Each connection begins with one.
                if self._begun:
                    return
                self._begun = True
            case Delta() | Reset():
                self._has_text = True
            case End():
                self.ended = True
            case _:
                pass
        yield event
        if isinstance(event, Status) and event.status == "RUNNING" and self._has_text:
            self._has_text = False
            yield Reset("", event.id)
