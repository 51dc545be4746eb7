"""A batch: each turn has a result of its own, in the order asked, and the turns of a session keep their order."""

import json
from typing import Any

from tests.client.playing import TERMS, Played, answer, gone, play
from turnstile.client import batch
from turnstile.client.errors import InvalidRequestError, TooManyRequestsError
from turnstile.client.exchange import Answer

LATER = {
    "status": 429,
    "problem": {"type": "/problems/rate-limited", "detail": "later"},
    "retry_after_seconds": 2,
}
NEVER = {"status": 422, "problem": {"type": "/problems/invalid-body", "detail": "no"}}


def accepted(name: str, *, replayed: bool = False) -> dict[str, Any]:
    return {"status": 202, "turn": {"id": name}, "replayed": replayed}


def results(*each: dict[str, Any]) -> Answer:
    return answer(200, json.dumps({"results": each}).encode())


def submit(many: int, *outcomes: Any, text: str = "x") -> Played:
    turns = [batch.BatchTurn(session_id="s", input=f"{number}{text}") for number in range(many)]
    return play(batch.submit_batch(turns, [f"k{number}" for number in range(many)], TERMS), *outcomes)


def sent(played: Played) -> list[list[str]]:
    """The keys of each request."""
    bodies = [json.loads(request.body or b"") for request in played.requests]
    return [[turn["idempotency_key"] for turn in body["turns"]] for body in bodies]


def test_each_turn_has_its_result_in_the_order_asked() -> None:
    played = submit(3, gone(), results(accepted("a"), NEVER, accepted("c", replayed=True)))

    first, refused, last = played.result
    assert (first, last) == ({"id": "a", "replayed": False}, {"id": "c", "replayed": True})
    assert isinstance(refused, InvalidRequestError)
    assert refused.detail == "no"
    assert sent(played) == [["k0", "k1", "k2"]] * 2


def test_turns_that_are_put_off_are_sent_again_before_those_behind_them() -> None:
    first = [accepted("t")] * 499 + [LATER]
    played = submit(502, results(*first), results(*[accepted("t")] * 3))

    assert [one["id"] for one in played.result] == ["t"] * 502
    assert sent(played)[1] == ["k499", "k500", "k501"]
    assert played.pauses == [2.2]


def test_when_the_patience_ends_the_turns_that_were_put_off_say_so_and_none_behind_them_is_sent() -> None:
    later = {**LATER, "retry_after_seconds": 40}
    played = submit(501, results(*[accepted("t")] * 499, later))

    assert len(played.requests) == 1
    assert all(isinstance(one, TooManyRequestsError) for one in played.result[499:])
    assert len(played.result) == 501
    assert played.result[500].retry_after == 40


def test_a_request_has_five_hundred_turns_and_two_million_bytes_at_most() -> None:
    many = submit(1001, *[results(*[accepted("t")] * n) for n in (500, 500, 1)])
    long = submit(3, *[results(accepted("t"))] * 3, text="x" * 1_900_000)

    assert [len(keys) for keys in sent(many)] == [500, 500, 1]
    assert sent(long) == [["k0"], ["k1"], ["k2"]]
    assert all(len(request.body or b"") < 2 * 1024**2 for request in many.requests)


def test_a_key_of_ones_own_counts() -> None:
    turn = batch.BatchTurn(session_id="s", input="hi", idempotency_key="mine", max_attempts=2)

    played = play(batch.submit_batch([turn], ["drawn"], TERMS), results(accepted("a")))

    assert json.loads(played.requests[0].body or b"") == {
        "turns": [{"session_id": "s", "input": "hi", "idempotency_key": "mine", "max_attempts": 2}]
    }


def test_no_turns_are_no_request() -> None:
    assert submit(0).result == []
