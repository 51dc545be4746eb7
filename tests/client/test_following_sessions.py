"""A session is followed from turn to turn; what is sent is followed from its submit on."""

import json
from typing import Any

from tests.client.playing import TERMS, Played, answer, gone, play
from turnstile.client import following
from turnstile.client.documents import TurnOptions
from turnstile.client.events import Begin, Delta, End, Reset, Status
from turnstile.client.exchange import Closed, Heard, Opened, Outcome


def hear(kind: str, place: str = "", **data: Any) -> Heard:
    return Heard(kind=kind, data=json.dumps(data), id=place)


def begin(turn: str) -> Heard:
    return hear("metadata", turn_id=turn, session_id="s", status="RUNNING", attempt=1)


def turn(name: str) -> list[Heard]:
    """A turn that says its name."""
    return [
        begin(name),
        hear("status", f"{name}:1-1", status="RUNNING", attempt=1),
        hear("delta", f"{name}:1-2", text=name),
        hear("end", f"{name}:1-3", turn_id=name, status="SUCCEEDED", output=name),
    ]


def told(name: str) -> list[Any]:
    return [
        Begin(name, "s", "RUNNING", 1),
        Status("RUNNING", 1, id=f"{name}:1-1"),
        Delta(name, f"{name}:1-2"),
        End(name, "SUCCEEDED", name, id=f"{name}:1-3"),
    ]


def follow(*outcomes: Outcome, after: str | None = None, waits: bool = False) -> Played:
    return play(following.follow_session("s", after, TERMS, waits=waits), *outcomes)


def last_ids(played: Played) -> list[str | None]:
    return [request.headers.get("Last-Event-ID") for request in played.requests]


def test_the_open_turns_are_told_one_after_the_other_until_none_is_open() -> None:
    played = follow(Opened(), *turn("a"), *turn("b"), Closed(), answer(204))

    assert played.told == [*told("a"), *told("b")]
    assert last_ids(played) == [None, "b:1-3"]
    assert all(request.path == "/v1/sessions/s/stream" and not request.params for request in played.requests)


def test_a_session_without_open_turns_has_no_events() -> None:
    assert follow(answer(204)).told == []


def test_a_stream_that_waits_goes_on_after_the_api_has_ended_it_between_two_turns() -> None:
    played = follow(Opened(), *turn("a"), Closed(), Opened(), *turn("b"), Closed(), answer(204), waits=True)

    assert played.told == [*told("a"), *told("b")]
    assert [request.params for request in played.requests] == [{"wait": "true"}] * 3


def test_a_break_within_a_turn_tells_its_rest_once() -> None:
    first, second = turn("a")[:3], [begin("a"), turn("a")[3]]

    played = follow(Opened(), *turn("z"), *first, gone(), Opened(), *second, Closed(), answer(204))

    assert played.told == [*told("z"), *told("a")]
    assert last_ids(played)[1] == "a:1-2"


def test_a_turn_that_was_put_to_work_again_begins_again() -> None:
    again = [begin("a"), hear("end", "a:2-3", turn_id="a", status="CANCELED", reason="user")]

    played = follow(Opened(), *turn("a"), *again, Closed(), answer(204))

    assert played.told == [*told("a"), Begin("a", "s", "RUNNING", 1), End("a", "CANCELED", reason="user", id="a:2-3")]


def test_whoever_goes_on_in_a_turn_loses_its_text_with_its_next_attempt_and_no_other_text() -> None:
    again = [begin("a"), hear("status", "a:2-1", status="RUNNING", attempt=2), turn("a")[3]]

    played = follow(Opened(), *again, *turn("b"), Closed(), answer(204), after="a:1-2")

    assert [event for event in played.told if isinstance(event, Reset)] == [Reset("", "a:2-1")]


def send(*outcomes: Outcome) -> Played:
    return play(following.send("s", "hi", "k", TurnOptions(max_attempts=2), TERMS), *outcomes)


def test_what_is_sent_is_submitted_and_followed_in_one_request() -> None:
    played = send(Opened(), *turn("a"))

    assert played.told == told("a")
    [request] = played.requests
    assert (request.method, request.path) == ("POST", "/v1/sessions/s/chat")
    assert request.headers == {"Idempotency-Key": "k", "Accept": "text/event-stream"}
    assert json.loads(request.body or b"") == {"input": "hi", "max_attempts": 2}


def test_until_its_turn_is_known_the_same_request_is_sent_again() -> None:
    played = send(gone(), Opened(), gone(), Opened(), *turn("a")[:3], gone(), Opened(), begin("a"), turn("a")[3])

    assert played.told == told("a")
    assert played.requests[0] == played.requests[1] == played.requests[2]
    last = played.requests[3]
    assert (last.method, last.path, last.headers["Last-Event-ID"]) == ("GET", "/v1/turns/a/events", "a:1-2")
