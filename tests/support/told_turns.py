"""Courses that a turn may take for its readers: attempts, resets, the handler's own events, one end. And readers whose
connections break anywhere."""

from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

from tests.support.wire_readers import Frame, frames
from turnstile.streaming.event import LAST_WORDS, EventId, EventKind
from turnstile.streaming.wires.ag_ui import AgUiEncoder
from turnstile.streaming.wires.sse import SseEvent
from turnstile.streaming.wires.wire import Telling, Wire, encoder_of
from turnstile.turn.stored_json import encode

TURN, SESSION = "0f0e0d0c-0000-4000-8000-000000000001", "s"

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
_ids = st.sampled_from(["a", "b"])
_values: st.SearchStrategy[Any] = st.sampled_from([None, 1, "x", [1], {"k": "v"}])
own_events: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda c, i: {"type": "tool-call", "id": c, "name": "look", "input": i}, _ids, _values),
    st.builds(lambda c, o: {"type": "tool-result", "id": c, "output": o}, _ids, _values),
    st.builds(lambda c: {"type": "tool-error", "id": c, "error": "no"}, _ids),
    st.builds(lambda t: {"type": "reasoning", "text": t}, texts),
    st.builds(lambda d: {"type": "data", "name": "sources", "data": d}, _values),
    st.builds(lambda d, i: {"type": "data", "name": "sources", "data": d, "id": i}, _values, _ids),
    st.sampled_from([{"type": "tool-call"}, {"type": "data", "name": "two words"}, {"type": 1}, [], 0, {}, True]),
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just(EventKind.DELTA), texts),
        st.tuples(st.just(EventKind.CUSTOM), own_events),
        st.tuples(st.just(EventKind.RESET), st.one_of(texts, st.just(""))),
    ),
    max_size=8,
)


@dataclass(frozen=True, slots=True)
class Course:
    """What a reader is told who has read from the start, but for the `metadata` of each connection."""

    events: list[SseEvent]
    text: str
    """That of Turnstile's own reader at the end."""
    output: Any

    def begins(self) -> list[int]:
        """The places where the stream may begin, once what is before them is gone."""
        return [place for place, one in enumerate(self.events) if one.id is not None and one.id.n == 1] or [0]


@st.composite
def courses(draw: st.DrawFn) -> Course:
    events: list[SseEvent] = []
    text = ""
    fence = draw(st.integers(0, 3))
    for attempt in range(1, draw(st.integers(0, 3)) + 1):
        fence += draw(st.integers(1, 3))
        n = 1
        text = ""
        events.append(_event(EventKind.STATUS, {"status": "RUNNING", "attempt": attempt}, EventId(fence, n)))
        for kind, what in draw(_steps):
            n += 1
            events.append(_event(kind, what if kind is EventKind.CUSTOM else {"text": what}, EventId(fence, n)))
            text = text + what if kind is EventKind.DELTA else what if kind is EventKind.RESET else text
        if draw(st.booleans()):
            about = {"status": "PENDING", "attempt": attempt, "outcome": "retry", "after_seconds": 1.5}
            events.append(_event(EventKind.STATUS, about, EventId(fence, n + 1)))
    return _ended(draw, events, text)


def _ended(draw: st.DrawFn, events: list[SseEvent], text: str) -> Course:
    last = events[-1].id if events else None
    said = EventId(last.fence, last.n + 1) if last else EventId(0, LAST_WORDS + 1)
    ending = draw(st.sampled_from(["said", "unsaid", "from the table", "an object", "failed", "canceled"]))
    about = {"turn_id": TURN}
    match ending:
        case "failed":
            message = draw(st.sampled_from([None, "no such model"]))
            error = {"class": "Reject", "message": message}
            return Course(
                [*events, _event(EventKind.ERROR, {**about, "status": "FAILED", "error": error}, said)], text, None
            )
        case "canceled":
            end = {**about, "status": "CANCELED", "reason": "user"}
            return Course([*events, _event(EventKind.END, end, said)], text, None)
        case "an object":
            end = {**about, "status": "SUCCEEDED", "output": {"k": 1}}
            return Course([*events, _event(EventKind.END, end, said)], text, {"k": 1})
    if ending != "said":
        text = draw(st.one_of(texts, st.just("")))
        whole = EventId(said.fence, LAST_WORDS) if ending == "from the table" else None
        said = said if whole is None else EventId(said.fence, LAST_WORDS + 1)
        events = [*events, _event(EventKind.RESET, {"text": text, "attempt": 1}, whole)]
    end = {**about, "status": "SUCCEEDED", "output": text}
    return Course([*events, _event(EventKind.END, end, said)], text, text)


def _event(kind: EventKind, data: Any, at: EventId | None) -> SseEvent:
    return SseEvent(kind, encode(data), at)


class Reader(Protocol):
    def connect(self) -> None: ...

    def take(self, frame: Frame) -> None: ...

    @property
    def text(self) -> str: ...

    @property
    def has_ended(self) -> bool: ...


def tell(
    wire: Wire, course: Course, *, seen: EventId | None = None, joins: bool = False, begin: int = 0
) -> list[Frame]:
    """What one connection of a client is sent that names the event `seen`. `begin`: the first event that is still there."""
    encoder = encoder_of(wire, joins=joins, seen=seen)
    telling = Telling(encoder, seen=seen)
    metadata = {"turn_id": TURN, "session_id": SESSION, "status": "RUNNING", "attempt": 1}
    following = course.events[begin:]
    if wire.resumes_in_the_middle and seen is not None:
        following = [event for event in course.events if event.id is None or event.id > seen]
    sent = b""
    for event in [SseEvent(EventKind.METADATA, encode(metadata)), *following]:
        if isinstance(encoder, AgUiEncoder) and encoder.needs_conversation(event):
            encoder.learn_conversation([])
        sent += telling.tell(event)
    return list(frames(sent))
