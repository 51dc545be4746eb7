"""What each call asks for, and what it makes of the answers."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.client.playing import TERMS, answer, gone, play
from turnstile.client import calls
from turnstile.client.exchange import Answer


def document(code: int = 200, took: float = 0.0, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    return answer(code, json.dumps(fields).encode(), took, **(headers or {}))


def test_a_submit_that_lost_its_answer_is_repeated_as_it_was_under_the_same_key() -> None:
    options = calls.TurnOptions(execute_at=datetime(2026, 12, 1, tzinfo=UTC), metadata={"a": 1})
    accepted = document(202, id="t", headers={"idempotency_replayed": "true"})

    played = play(calls.submit("chat/1", {"text": "hi"}, "k", options, TERMS), gone(), gone(), accepted)

    assert played.result == {"id": "t", "replayed": True}
    assert len(played.requests) == 3
    assert len(set(map(str, played.requests))) == 1
    [request, *_] = played.requests
    assert (request.method, request.path) == ("POST", "/v1/sessions/chat%2F1/turns")
    assert request.headers == {"Idempotency-Key": "k"}
    assert json.loads(request.body or b"") == {
        "input": {"text": "hi"},
        "execute_at": "2026-12-01T00:00:00+00:00",
        "metadata": {"a": 1},
    }


def test_a_wait_asks_again_until_the_turn_has_ended() -> None:
    open_, ended = document(took=20, status="RUNNING"), document(took=1, status="FAILED")

    played = play(calls.wait("t", 50, TERMS), open_, open_, ended)

    assert played.result["status"] == "FAILED"
    assert [request.params["wait"] for request in played.requests] == [20, 20, 10]
    assert all(request.silence_seconds == request.params["wait"] + 10 for request in played.requests)
    assert played.pauses == []


def test_a_wait_returns_the_turn_as_it_is_when_the_time_is_up() -> None:
    played = play(calls.wait("t", 20, TERMS), document(took=20, status="PENDING"))

    assert played.result["status"] == "PENDING"


def test_a_wait_for_which_the_api_has_no_place_asks_again_when_the_api_says() -> None:
    at_once = document(took=0, status="PENDING", headers={"retry_after": "4"})

    played = play(calls.wait("t", 10, TERMS), *[at_once] * 4)

    assert played.pauses == [4, 4, 2]


def test_an_erased_session_is_no_error() -> None:
    no_session = document(404, type="/problems/not-found", detail="no such session")

    assert play(calls.erase("s", TERMS), document(202)).result is True
    assert play(calls.erase("s", TERMS), gone(), no_session).result is False


def test_pages_are_read_as_they_are_needed() -> None:
    first = document(turns=[{"id": 3}, {"id": 2}], next_cursor="c")
    steps = calls.list_turns("s", {"status": "FAILED", "queue": None}, TERMS)

    played = play(steps, first, document(turns=[], next_cursor="d"), document(turns=[{"id": 1}], next_cursor=None))

    assert played.told == [{"id": 3}, {"id": 2}, {"id": 1}]
    assert [dict(request.params) for request in played.requests] == [
        {"status": "FAILED", "limit": 100},
        {"status": "FAILED", "limit": 100, "cursor": "c"},
        {"status": "FAILED", "limit": 100, "cursor": "d"},
    ]


def test_messages_come_newest_first() -> None:
    first, last = document(messages=[3, 4], next_cursor="c"), document(messages=[1, 2], next_cursor=None)

    assert play(calls.list_messages("s", TERMS), first, last).told == [4, 3, 2, 1]
