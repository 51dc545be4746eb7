"""Whatever a turn's course is and wherever connections break: a client of each wire gets the same text, and one end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.told_turns import Course, Reader, courses, tell
from tests.support.wire_readers import AgUiReader, AiSdkReader, OwnReader
from turnstile.streaming.event import EventId
from turnstile.streaming.wires.wire import Wire

READERS: dict[Wire, type[Reader]] = {
    Wire.TURNSTILE: OwnReader,
    Wire.AI_SDK: AiSdkReader,
    Wire.AG_UI: AgUiReader,
}
every_wire = pytest.mark.parametrize("wire", Wire)


@every_wire
@given(course=courses())
def test_a_reader_of_one_connection_has_the_text_and_one_end(wire: Wire, course: Course) -> None:
    reader = READERS[wire]()
    reader.connect()
    for frame in tell(wire, course):
        assert not reader.has_ended
        reader.take(frame)

    assert reader.has_ended
    assert reader.text == course.text
    assert course.output is None or reader.text == course.output or not isinstance(course.output, str)


@every_wire
@given(course=courses(), data=st.data())
def test_breaks_anywhere_lose_and_double_nothing(wire: Wire, course: Course, data: st.DataObject) -> None:
    reader = READERS[wire]()
    ids: list[EventId] = []
    for connection in range(data.draw(st.integers(0, 3)) + 1):
        if not wire.resumes_in_the_middle and data.draw(st.booleans()):
            # A page that was loaded again, and knows nothing but the id.
            reader = READERS[wire]()
        reader.connect()
        last = ids[-1] if ids else None
        begin = data.draw(st.sampled_from([place for place in course.begins() if _is_reached(course, place, last)]))
        sent = tell(wire, course, seen=last, joins=connection > 0, begin=begin)
        cut = data.draw(st.integers(0, len(sent)))
        for frame in sent[:cut]:
            reader.take(frame)
            if frame.id is not None:
                ids.append(EventId.parse(frame.id))
        if reader.has_ended:
            break
    else:
        reader.connect()
        for frame in tell(wire, course, seen=ids[-1] if ids else None, joins=True):
            reader.take(frame)
            ids += [] if frame.id is None else [EventId.parse(frame.id)]

    assert reader.has_ended
    assert ids == sorted(set(ids))
    assert {*ids} <= {event.id for event in course.events}
    assert reader.text == course.text


def _is_reached(course: Course, place: int, last: EventId | None) -> bool:
    """Whether the turn is at this place or beyond it, once the client has seen the event `last`."""
    at = course.events[place].id
    return place == 0 or (last is not None and at is not None and at <= last)


@every_wire
@given(course=courses())
def test_a_page_that_begins_anew_in_the_middle_has_the_whole_text(wire: Wire, course: Course) -> None:
    reader = READERS[wire]()
    reader.connect()
    for frame in tell(wire, course, joins=True, begin=course.begins()[-1]):
        reader.take(frame)

    assert reader.has_ended
    assert reader.text == course.text


@every_wire
@given(course=courses())
def test_the_id_is_on_the_last_of_the_chunks_of_an_event(wire: Wire, course: Course) -> None:
    sent = tell(wire, course)

    ids = [frame.id for frame in sent if frame.id is not None]
    assert sent[-1].id == str(course.events[-1].id)
    assert ids == [text for event in course.events if (text := str(event.id)) in ids]
