"""The body of a submit, and when two are the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnstile.producer.submit.turn_request import (
    MAX_AHEAD,
    InvalidRequestError,
    fingerprint,
    parse_uuid,
    read_turn_request,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ID = "2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"


def digest(session: str = "s", **fields: Any) -> bytes:
    return fingerprint(session, read_turn_request({"input": "x", **fields}, NOW))


@pytest.mark.parametrize(
    "same",
    [
        [{"input": {"a": 1, "b": [2]}}, {"input": {"b": [2], "a": 1}}],
        [{}, {"queue": None}, {"metadata": None, "turn_id": None, "execute_at": None, "max_attempts": None}],
        [{"timeout_seconds": 3}, {"timeout_seconds": 3.0}],
        [{"execute_at": "2026-01-01T12:00:00Z"}, {"execute_at": "2026-01-01t13:00:00.000+01:00"}],
        [{"turn_id": ID}, {"turn_id": ID.upper()}],
    ],
)
def test_one_request_however_it_is_written(same: list[dict[str, Any]]) -> None:
    assert len({digest(**fields) for fields in same}) == 1


def test_every_difference_makes_another_request() -> None:
    all_different = [
        digest(),
        digest("other"),
        digest(input="y"),
        digest(input="x "),
        digest(input={"x": 1}),
        digest(input={"x": "1"}),
        digest(queue="q"),
        digest(execute_at="2026-01-01T12:00:00Z"),
        digest(execute_at="2026-01-01T12:00:00.000001Z"),
        digest(max_attempts=1),
        digest(timeout_seconds=1),
        digest(expires_in_seconds=1),
        digest(metadata={}),
        digest(metadata={"a": None}),
        digest(turn_id=ID),
    ]
    assert len(set(all_different)) == len(all_different)


def test_a_fingerprint_never_changes_or_every_repeat_across_a_deploy_would_be_refused() -> None:
    given = digest(input={"é": [1, 2.5]}, execute_at="2026-01-01T12:00:00Z", timeout_seconds=3, turn_id=ID)
    assert given.hex() == "f11381251ae0ad15a425b6790eb20a31a27704985208da3edf364f31ac66c3f8"


@pytest.mark.parametrize("ahead", [MAX_AHEAD, timedelta(0), timedelta(days=-3650)])
def test_times_within_reach(ahead: timedelta) -> None:
    assert read_turn_request({"input": "x", "execute_at": (NOW + ahead).isoformat()}, NOW).execute_at == NOW + ahead


@pytest.mark.parametrize("ahead", [MAX_AHEAD + timedelta(seconds=1), timedelta(days=-12_000)])
def test_times_out_of_reach(ahead: timedelta) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_turn_request({"input": "x", "execute_at": (NOW + ahead).isoformat()}, NOW)
    assert [pointer for pointer, _ in caught.value.faults] == ["/execute_at"]


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_turn_request({"input": "", "max_attempts": True, "a/b": 1}, NOW)
    assert {pointer for pointer, _ in caught.value.faults} == {"/input", "/max_attempts", "/a~1b"}


@pytest.mark.parametrize("text", ["", "x", ID + "\n", f"{{{ID}}}", f"urn:uuid:{ID}", ID.replace("-", ""), "٢" + ID[1:]])
def test_only_the_usual_form_is_a_uuid(text: str) -> None:
    assert parse_uuid(text) is None
