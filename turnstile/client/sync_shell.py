"""Performs the steps of the core with `httpx2.Client` and blocking calls."""

import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any, TypeVar, assert_never, cast

import httpx2

from turnstile.client.exchange import (
    Answer,
    Ask,
    Broken,
    Closed,
    Done,
    Heard,
    Listen,
    Open,
    Opened,
    Outcome,
    Pause,
    Request,
    Step,
    Steps,
    Tell,
)
from turnstile.client.http_messages import broken, has_events, read_response, request_arguments

T = TypeVar("T")


class SyncShell:
    """Runs the core of calls."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    def run(self, steps: Steps[T]) -> T:
        """The result of a call."""
        connection = _Connection(self._http)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast("T", end.value)
            outcome = connection.perform(step)

    def tell(self, steps: Steps[None]) -> Generator[Any, None, None]:
        """What a call tells, one by one."""
        connection = _Connection(self._http)
        outcome: Outcome | None = None
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration:
                    return
                if isinstance(step, Tell):
                    yield step.value
                outcome = connection.perform(step)
        finally:
            connection.close()


class _Connection:
    """The requests of one call, and the stream that it has opened."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self._response: httpx2.Response | None = None
        self._events: Generator[httpx2.ServerSentEvent, None, None] | None = None

    def perform(self, step: Step) -> Outcome:
        began = time.monotonic()
        try:
            outcome = self._perform(step)
        except httpx2.HTTPError as error:
            self.close()
            outcome = broken(error)
        return outcome if isinstance(outcome, Done) else replace(outcome, took=time.monotonic() - began)

    def _perform(self, step: Step) -> Outcome:
        match step:
            case Ask(request):
                return read_response(self._http.send(self._build(request)))
            case Open(request):
                return self._open(request)
            case Listen():
                return self._listen()
            case Pause(seconds):
                time.sleep(seconds)
                return Done()
            case Tell():
                return Done()
            case _:
                assert_never(step)

    def _open(self, request: Request) -> Opened | Answer:
        self.close()
        self._response = self._http.send(self._build(request), stream=True)
        if not has_events(self._response):
            self._response.read()
            return read_response(self._response)
        events = iter(httpx2.EventSource(self._response, max_event_size=None))
        self._events = cast("Generator[httpx2.ServerSentEvent, None, None]", events)
        return Opened()

    def _listen(self) -> Heard | Closed | Broken:
        if self._events is None:
            return Closed()
        try:
            event = next(self._events)
        except StopIteration:
            self.close()
            return Closed()
        return Heard(kind=event.event, data=event.data, id=event.id)

    def _build(self, request: Request) -> httpx2.Request:
        return self._http.build_request(**request_arguments(request))

    def close(self) -> None:
        """Ends the stream, if one is open."""
        events, self._events = self._events, None
        response, self._response = self._response, None
        if events is not None:
            events.close()
        if response is not None:
            response.close()
