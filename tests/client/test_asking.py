"""A request is repeated while that can help, as the API asks, and no longer than the client has patience."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.playing import TERMS, answer, gone, play
from turnstile.client import batch, calls
from turnstile.client.errors import (
    ApiUnreachableError,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from turnstile.client.exchange import Outcome, Steps

TURN = answer(200, b'{"id": "t", "status": "PENDING"}')


def problem(status: int, slug: str = "some", took: float = 0.0, **headers: str) -> Outcome:
    body = {"type": f"/problems/{slug}", "title": "A title", "status": status, "detail": "what to do", "turn_id": "t"}
    return answer(status, json.dumps(body).encode(), took, **headers)


@pytest.mark.parametrize(
    ("outcome", "pause"),
    [
        (gone(), 0.2),
        (gone(sent=False), 0.2),
        (problem(429, retry_after="3"), 3.2),
        (problem(503, retry_after="2"), 2.2),
        # A proxy whose API restarts.
        (answer(502, b"<html>"), 0.2),
        (answer(504, b""), 0.2),
    ],
)
def test_what_may_pass_is_repeated_after_a_pause(outcome: Outcome, pause: float) -> None:
    played = play(calls.read("t", TERMS), outcome, TURN)

    assert played.result["id"] == "t"
    assert played.pauses == [pause]
    assert played.requests[0] == played.requests[1]


def test_the_pauses_grow_up_to_five_seconds_and_end_with_the_patience() -> None:
    with pytest.raises(ApiUnreachableError, match="the API at http://api does not answer: it broke"):
        play(calls.read("t", TERMS), *(gone() for _ in range(10)))

    played = play(calls.read("t", TERMS), *(gone() for _ in range(9)), TURN)

    assert played.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]


def test_a_request_that_takes_all_the_patience_is_not_repeated() -> None:
    with pytest.raises(ApiUnreachableError):
        play(calls.read("t", TERMS), gone(took=30.0))


def test_a_client_waits_for_no_pause_that_is_longer_than_its_patience() -> None:
    with pytest.raises(TooManyRequestsError) as raised:
        play(calls.read("t", TERMS), problem(429, retry_after="60"))

    assert raised.value.retry_after == 60


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (413, InvalidRequestError),
        (422, InvalidRequestError),
        # The API does not say when: as many turns are open as may be.
        (429, TooManyRequestsError),
        (500, UnavailableError),
    ],
)
def test_a_refusal_is_raised_at_once_with_the_problem(status: int, kind: type[ProblemError]) -> None:
    with pytest.raises(kind) as raised:
        play(calls.read("t", TERMS), problem(status, "a-kind"))

    error = raised.value
    assert (error.type, error.title, error.detail, error.status) == (
        "/problems/a-kind",
        "A title",
        "what to do",
        status,
    )
    assert str(error) == f"{status}: what to do"
    assert error.document["turn_id"] == "t"


@pytest.mark.parametrize(
    "outcome", [answer(200, b"<html>"), answer(200, b"[]"), answer(302), answer(404, b'{"detail": "no"}'), answer(401)]
)
def test_what_is_no_turnstile_api_is_named_as_such(outcome: Outcome) -> None:
    with pytest.raises(UnexpectedAnswerError, match=r"http://api answered \d+, but not as a Turnstile API does"):
        play(calls.read("t", TERMS), outcome)


def test_whether_a_request_may_have_been_done_is_known() -> None:
    def sent(outcome: Outcome) -> Any:
        with pytest.raises(ApiUnreachableError) as raised:
            play(calls.read("t", TERMS), outcome)
        return raised.value.sent

    assert [sent(gone(sent=True, took=40)), sent(gone(sent=False, took=40))] == [True, False]


def test_a_request_may_have_been_done_by_any_of_its_tries() -> None:
    with pytest.raises(ApiUnreachableError) as raised:
        play(calls.read("t", TERMS), gone(sent=True), gone(sent=False, took=40))

    assert raised.value.sent


@pytest.mark.parametrize(
    "call",
    [
        lambda: calls.read("t", TERMS),
        lambda: calls.wait("t", 5, TERMS),
        lambda: calls.submit("s", "hi", "k", {}, TERMS),
        lambda: calls.cancel("t", TERMS),
        lambda: calls.list_turns(None, {}, TERMS),
        lambda: batch.submit_batch([{"session_id": "s", "input": "hi"}], ["k"], TERMS),
    ],
    ids=["read", "wait", "submit", "cancel", "list", "batch"],
)
def test_an_object_of_another_program_is_named_as_such(call: Callable[[], Steps[Any]]) -> None:
    with pytest.raises(UnexpectedAnswerError):
        play(call(), answer(200, b'{"ok": true}'))


def test_a_pause_that_is_no_number_of_seconds_is_not_one() -> None:
    played = play(calls.read("t", TERMS), problem(503, retry_after="\u00b2"), TURN)

    assert played.pauses == [0.2]


def test_every_error_is_one_kind() -> None:
    assert issubclass(ProblemError, ClientError)
    assert issubclass(ApiUnreachableError, ClientError)
    assert issubclass(UnexpectedAnswerError, ClientError)
