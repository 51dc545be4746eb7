"""The core of a stream: events, each once, through any number of connections, to the end.

It connects again after the last event id that it has, as docs/event-flow.md says. A connection may break at any byte: an event
counts once it is whole, and its id comes with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from turnstile.client.asking import asked_pause, failure, may_repeat
from turnstile.client.calls import read, session_path, submit_request, turn_path
from turnstile.client.documents import ENDED, TurnOptions
from turnstile.client.errors import UnexpectedAnswerError
from turnstile.client.events import End
from turnstile.client.exchange import Answer, Broken, Heard, Opened, Pause, Request, Steps, Tell, listen, open_stream
from turnstile.client.patience import Patience
from turnstile.client.reader import Reader
from turnstile.client.terms import Terms

SILENCE_SECONDS = 45.0
"""Three heartbeats of the API. After that the connection is dead, although nobody has closed it."""
STEADY_SECONDS = 10.0
"""A connection that has lasted so long was a good one, even if nothing happened in the turn."""
NO_MORE = 204
OK = 200
REDRIVEN_SECONDS = 1.0
ACCEPT = {"Accept": "text/event-stream"}

_CUT_SHORT = Broken(reason="the stream ended before the turn did", sent=True)


def send(session_id: str, content: Any, key: str, options: TurnOptions, terms: Terms) -> Steps[None]:
    """Submits a turn, and tells its events."""
    submit = submit_request(f"{session_path(session_id)}/chat", content, key, options)
    chat = replace(submit, headers={**submit.headers, **ACCEPT}, silence_seconds=SILENCE_SECONDS)
    reader = Reader()

    def connect() -> Request:
        # The same request again follows the same turn.
        return chat if reader.turn_id is None else _events_at(f"{turn_path(reader.turn_id)}/events", reader)

    yield from _follow(connect, reader, terms)


def follow(turn_id: str, after: str | None, terms: Terms) -> Steps[None]:
    """Tells the turn's events behind the event `after`, and its end."""
    reader = Reader(after)
    while True:
        yield from _follow(lambda: _events_at(f"{turn_path(turn_id)}/events", reader), reader, terms)
        if reader.ended:
            return
        # The API says that nothing follows: the caller has named the end.
        turn = yield from read(turn_id, terms)
        if turn["status"] in ENDED:
            yield Tell(End(turn_id, turn["status"], turn["output"], turn["error"], turn["cancel_reason"]))
            return
        # It was redriven between the two requests.
        yield Pause(REDRIVEN_SECONDS)


def follow_session(session_id: str, after: str | None, terms: Terms, *, waits: bool) -> Steps[None]:
    """Tells the events of the session's turns behind the event `after`, turn by turn, until none is open.

    `waits`: also those of the turns that come later, without an end.
    """
    reader = Reader(after, across=True)
    params = {"wait": "true"} if waits else {}
    yield from _follow(lambda: _events_at(f"{session_path(session_id)}/stream", reader, params), reader, terms)


def _events_at(path: str, reader: Reader, params: Mapping[str, str] | None = None) -> Request:
    headers = ACCEPT if reader.last_id is None else {**ACCEPT, "Last-Event-ID": reader.last_id}
    return Request("GET", path, params=params or {}, headers=headers, silence_seconds=SILENCE_SECONDS)


def _follow(connect: Callable[[], Request], reader: Reader, terms: Terms) -> Steps[None]:
    """Tells events until the reader has ended, or the API says that nothing follows."""
    patience = terms.patience()
    arrived = False
    while True:
        outcome = yield from open_stream(connect())
        if isinstance(outcome, Answer) and outcome.status == NO_MORE:
            return
        fault: Answer | Broken
        if isinstance(outcome, Opened):
            fault = yield from _tell_events(reader, patience, terms)
            if reader.ended:
                return
        else:
            fault = outcome
        if isinstance(fault, Answer) and not may_repeat(fault):
            raise failure(fault, terms)
        arrived |= isinstance(fault, Broken) and fault.sent
        pause = patience.after_failure(fault.took, asked_pause(fault))
        if pause is None:
            raise failure(fault, terms, arrived=arrived)
        yield Pause(pause)


def _tell_events(reader: Reader, patience: Patience, terms: Terms) -> Steps[Broken]:
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
