"""When a stream connects again, what it tells, and when it gives up."""

import json
from typing import Any

import pytest

from tests.client.playing import TERMS, answer, gone, play
from turnstile.client import following
from turnstile.client.errors import ApiUnreachableError, NotFoundError, TooManyRequestsError, UnexpectedAnswerError
from turnstile.client.events import Begin, Custom, Delta, End, Reset, Status
from turnstile.client.exchange import Closed, Heard, Opened, Outcome

BEGIN = Begin("t", "s", "RUNNING", 1)
END = End("t", "SUCCEEDED", "Hello", id="1-4")


def hear(kind: str, place: str = "", took: float = 0.0, **data: Any) -> Heard:
    return Heard(kind=kind, data=json.dumps(data), id=place, took=took)


METADATA = hear("metadata", turn_id="t", session_id="s", status="RUNNING", attempt=1)
RUNNING = hear("status", "1-1", status="RUNNING", attempt=1)
HELLO = hear("delta", "1-2", text="Hello")
ENDED = hear("end", "1-4", turn_id="t", status="SUCCEEDED", output="Hello")


def follow(*outcomes: Outcome, after: str | None = None) -> Any:
    return play(following.follow("t", after, TERMS), *outcomes)


def last_ids(played: Any) -> list[str | None]:
    return [request.headers.get("Last-Event-ID") for request in played.requests]


def test_it_goes_on_behind_the_last_event_that_came_whole() -> None:
    played = follow(Opened(), METADATA, RUNNING, HELLO, gone(), gone(), Opened(), METADATA, Closed(), Opened(), ENDED)

    assert played.told == [BEGIN, Status("RUNNING", 1, id="1-1"), Delta("Hello", "1-2"), END]
    assert last_ids(played) == [None, "1-2", "1-2", "1-2"]


def test_a_new_attempt_empties_the_text_of_the_one_before() -> None:
    waits = hear("status", "1-3", status="PENDING", attempt=1, outcome="retried", after_seconds=2.0)
    again = hear("status", "2-1", status="RUNNING", attempt=2)

    played = follow(Opened(), METADATA, RUNNING, HELLO, waits, again, ENDED)

    assert played.told[3:] == [
        Status("PENDING", 1, "retried", 2.0, "1-3"),
        Status("RUNNING", 2, id="2-1"),
        Reset("", "2-1"),
        END,
    ]


def test_whoever_goes_on_behind_an_event_of_an_attempt_loses_its_text_with_the_next_attempt() -> None:
    played = follow(Opened(), METADATA, hear("status", "2-1", status="RUNNING", attempt=2), ENDED, after="1-2")

    assert last_ids(played) == ["1-2"]
    assert played.told[2] == Reset("", "2-1")


def test_a_failed_and_a_canceled_turn_end_in_the_same_way() -> None:
    error = {"class": "Reject", "message": "no"}

    failed = follow(Opened(), hear("error", "1-3", turn_id="t", status="FAILED", error=error))
    canceled = follow(Opened(), hear("end", "1-3", turn_id="t", status="CANCELED", reason="user"))

    assert failed.told == [End("t", "FAILED", error={"class": "Reject", "message": "no"}, id="1-3")]
    assert canceled.told == [End("t", "CANCELED", reason="user", id="1-3")]


def test_what_the_handler_said_is_told_and_what_a_newer_api_says_is_left_out() -> None:
    played = follow(Opened(), hear("custom", "1-2", a=[1]), hear("novelty", "1-3", b=2), gone(), Opened(), ENDED)

    assert played.told == [Custom({"a": [1]}, "1-2"), END]
    assert last_ids(played) == [None, "1-3"]


def test_whoever_has_seen_the_end_gets_it_from_the_turn() -> None:
    turn = {"status": "SUCCEEDED", "output": "Hello", "error": None, "cancel_reason": None}

    played = follow(answer(204), answer(200, json.dumps(turn).encode()), after="1-4")

    assert played.told == [End("t", "SUCCEEDED", "Hello")]


def test_a_turn_that_was_redriven_meanwhile_is_followed_again() -> None:
    played = follow(answer(204), answer(200, b'{"status": "PENDING"}'), Opened(), METADATA, ENDED, after="1-4")

    assert played.told == [BEGIN, END]


def test_it_comes_back_when_the_api_says() -> None:
    busy = answer(429, b'{"type": "/problems/too-many-streams"}', retry_after="2")

    assert follow(busy, answer(503, b"", retry_after="5"), Opened(), METADATA, ENDED).pauses == [2.2, 5.4]


def test_what_no_repeat_mends_is_raised() -> None:
    with pytest.raises(NotFoundError):
        follow(Opened(), METADATA, gone(), answer(404, b'{"type": "/problems/not-found"}'))
    with pytest.raises(TooManyRequestsError):
        follow(answer(429, b'{"type": "/problems/too-many-streams"}', retry_after="31"))
    with pytest.raises(UnexpectedAnswerError):
        follow(answer(200, b"<html>"))
    with pytest.raises(UnexpectedAnswerError):
        follow(Opened(), Heard(kind="delta", data="{", id="1-2"))


def test_connections_that_bring_nothing_end_the_patience() -> None:
    with pytest.raises(ApiUnreachableError, match="it broke"):
        follow(*[Opened(), METADATA, gone()] * 10)


def test_each_event_restores_the_patience() -> None:
    deltas = [hear("delta", f"1-{n}", text="x") for n in range(2, 102)]

    assert len(follow(*(one for delta in deltas for one in (Opened(), delta, gone())), Opened(), ENDED).told) == 101


def test_a_quiet_turn_is_followed_for_as_long_as_it_takes_through_a_proxy_that_ends_quiet_connections() -> None:
    assert follow(*[Opened(), METADATA, gone(took=45.0)] * 100, Opened(), ENDED).told == [BEGIN, END]
