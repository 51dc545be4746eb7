"""A stream that breaks at any byte, any number of times: the reader has the reply, once, and one end."""

from unittest.mock import patch

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from tests.client.told_turn import TURN, Events, tell
from turnstile.client import Client, Custom, Delta, End, Event, Reset

texts = st.text(min_size=1, max_size=6) | st.sampled_from(["é", "😀", "\u2028", "\r\n", "data: x"])
attempts = st.lists(st.lists(texts | st.integers(0, 9), max_size=6), min_size=1, max_size=4)
cuts = st.lists(st.integers(0, 900), max_size=8)


def read(told: Events) -> list[Event]:
    """What a client yields. Its pauses take no time."""
    with (
        patch("turnstile.client.sync_shell.time.sleep"),
        Client("http://api", transport=httpx2.MockTransport(told)) as client,
    ):
        return list(client.follow(TURN))


@given(attempts, cuts, st.integers(1, 40))
def test_any_cut_at_any_byte_gives_the_reply_once(
    said: list[list[str | int]], broken_after: list[int], piece: int
) -> None:
    told = tell(said)

    events = read(Events(told, list(broken_after), piece))

    text = ""
    for event in events:
        match event:
            case Delta(more):
                text += more
            case Reset(whole):
                text = whole
    assert [event for event in events if isinstance(event, End)] == [events[-1]]
    assert text == events[-1].output
    customs = [(event.id, event.data) for event in events if isinstance(event, Custom)]
    assert customs == [(one.id, one.data) for one in told if one.kind == "custom"]


@given(attempts, st.data())
def test_a_reader_may_go_on_after_any_event_that_it_has_kept(said: list[list[str | int]], data: st.DataObject) -> None:
    told = tell(said)
    kept = data.draw(st.integers(0, len(told) - 2), label="last event")

    with Client("http://api", transport=httpx2.MockTransport(Events(told))) as client:
        events = list(client.follow(TURN, after=told[kept].id))

    # The empty text of a new attempt is told with the id of its status.
    assert list(dict.fromkeys(event.id for event in events[1:])) == [one.id for one in told[kept + 1 :]]
