"""The body of a submit: what is refused, and when two requests are equal."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.submission.submission_key import fingerprint
from turnstile.submission.turn_request import (
    MAX_AHEAD,
    MAX_METADATA_BYTES,
    InvalidRequestError,
    NotJsonError,
    TurnRequest,
    given_fields,
    read_submission,
    read_turn_request,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ID = "2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"


def read(**fields: Any) -> TurnRequest:
    return read_turn_request(json.dumps({"input": "x", **fields}).encode(), NOW)


def digest(session: str = "s", **fields: Any) -> bytes:
    return fingerprint(session, given_fields(read(**fields)))


def nest(levels: int) -> bytes:
    return b'{"input":' + b'{"a":' * (levels - 1) + b"1" + b"}" * levels


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"input": "x"} {}',
        b'\xef\xbb\xbf{"input": "x"}',
        '{"input": "é"}'.encode("latin-1"),
        b'{"input": "\xed\xa0\x80"}',
        b'{"input": "\\ud800"}',
        b'{"input": "a\x01"}',
    ],
    ids=str,
)
def test_a_text_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotJsonError):
        read_turn_request(body, NOW)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (nest(201), "is nested more than 200 levels deep"),
        (b'{"a":' * 180_000, "is nested more than 200 levels deep"),
        (b'{"input": {"a": ' + b"9" * 4301 + b"}}", "has a number of more than 4300 digits: send it as a string"),
        (b'{"input": {"a": -' + b"9" * 5000 + b"}}", "has a number of more than 4300 digits: send it as a string"),
        (b'{"input": "x", "input": "y"}', "has an object with two members 'input': give it once"),
        (b'{"input": {"a": [{"b": 1, "\\u0062": 1}]}}', "has an object with two members 'b': give it once"),
        (b'{"input": "x", "metadata": {"a": 1, "a": 1}}', "has an object with two members 'a': give it once"),
        (
            b'{"input": {"' + b"n" * 500 + b'": 1, "' + b"n" * 500 + b'": 1}}',
            f"has an object with two members '{'n' * 64}…': give it once",
        ),
    ],
    ids=["201 levels", "levels without end", "digits", "digits below zero", "twice", "escaped", "in metadata", "long"],
)
def test_json_that_the_parser_does_not_take_is_refused_with_the_reason(body: bytes, fault: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_turn_request(body, NOW)

    assert not isinstance(refused.value, NotJsonError)
    assert refused.value.faults == [("", fault)]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'["x"]', ""),
        (b"{}", "/input"),
        (b'{"input": "a\\u0000b"}', "/input"),
        (b'{"input": {"a\\u0000": 1}}', "/input"),
        (b'{"input": {"a": "\\\\\\u0000"}}', "/input"),
        (b'{"input": "x", "metadata": {"a": ["\\u0000"]}}', "/metadata"),
        (b'{"input": {"a": NaN}}', "/input"),
        (b'{"input": {"a": 1e999}}', "/input"),
    ],
)
def test_json_that_is_not_a_request_or_cannot_be_stored_is_refused(body: bytes, pointer: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_turn_request(body, NOW)

    assert [place for place, _ in refused.value.faults] == [pointer]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input", ""),
        ("input", " \n\t\u2003"),
        ("max_attemps", 3),
        ("on_busy", "rollback"),
        ("max_attempts", True),
        ("max_attempts", 0),
        ("max_attempts", "3"),
        ("timeout_seconds", 0),
        ("timeout_seconds", 1e300),
        ("expires_in_seconds", 10**12),
        ("metadata", {"a": "é" * (MAX_METADATA_BYTES // 2)}),
        ("priority_seconds", -1),
        ("priority_seconds", 3601),
        ("turn_id", "1"),
        ("webhook_url", "http://user:s3cret@hooks.example.com/"),
        ("execute_at", "2027-01-01T00:00:00"),
        ("execute_at", 1_800_000_000),
        ("execute_at", "2027-02-30T00:00:00Z"),
        ("execute_at", "0001-01-01T00:00:00+14:00"),
        ("execute_at", "9999-12-31T23:59:59-14:00"),
        ("execute_at", (NOW + MAX_AHEAD + timedelta(seconds=1)).isoformat()),
    ],
)
def test_a_field_with_a_bad_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(**{name: value})

    assert [pointer for pointer, _ in refused.value.faults] == [f"/{name}"]
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"on_busy": "reject", "execute_at": "2026-01-01T00:00:00Z"},
        {"on_busy": "merge", "turn_id": ID},
        {"on_busy": "merge", "webhook_url": "https://a.example/x"},
    ],
)
def test_on_busy_is_refused_with_options_that_it_can_not_keep(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="/on_busy"):
        read(**fields)


def test_of_many_unknown_fields_ten_are_named_and_no_name_is_long() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(**{f"{number}{'x' * 1000}": 1 for number in range(100)})

    assert len(refused.value.faults) == 10
    assert max(len(pointer) for pointer, _ in refused.value.faults) == 66


def test_all_faults_are_named_at_once_and_no_value_is_quoted() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(input="", max_attempts="the-secret", turn_id="the-secret", **{"a/b": "the-secret"})

    assert {pointer for pointer, _ in refused.value.faults} == {"/input", "/max_attempts", "/turn_id", "/a~1b"}
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        nest(200),
        b'{"input": {"a": ' + b"9" * 4300 + b"}}",
        b'{"input": {"a": 1, "b": {"a": 1}, "A": "a"}}',
        b'{"input": "\\ud83d\\ude00 \\\\u0000"}',
        b' {"input": {"a": [1e127, -0.0, 123456789012345678901234567890, "", null, true]}} \n',
        json.dumps({"input": "x", "metadata": {"a": "x" * (MAX_METADATA_BYTES - 8)}}).encode(),
        b'{"input": "x", "queue": null, "execute_at": null, "max_attempts": null, "metadata": null, "turn_id": null}',
    ],
    ids=["200 levels", "4300 digits", "a name on two levels", "a backslash", "numbers", "large metadata", "nulls"],
)
def test_the_largest_and_strangest_requests_are_accepted(body: bytes) -> None:
    assert read_turn_request(body, NOW)


@pytest.mark.parametrize("value", [None, False, 0, -1.5, [], {}, [""], [{"type": "text", "text": "hi"}], {"text": ""}])
def test_an_input_may_be_any_json_value(value: Any) -> None:
    assert read(input=value).input == value


@pytest.mark.parametrize("ahead", [MAX_AHEAD, timedelta(0), timedelta(days=-3650)])
def test_a_time_up_to_a_year_ahead_or_in_the_past_is_accepted(ahead: timedelta) -> None:
    assert read(execute_at=(NOW + ahead).isoformat()).execute_at == NOW + ahead


@pytest.mark.parametrize(
    "same",
    [
        [{"input": {"a": 1, "b": [2]}}, {"input": {"b": [2], "a": 1}}],
        [{}, {"queue": None}, {"metadata": None, "turn_id": None, "execute_at": None, "max_attempts": None}],
        [{}, {"on_busy": "enqueue"}, {"priority_seconds": 0}],
        [{"timeout_seconds": 3}, {"timeout_seconds": 3.0}],
        [{"execute_at": "2026-01-01T12:00:00Z"}, {"execute_at": "2026-01-01t13:00:00.000+01:00"}],
        [{"turn_id": ID}, {"turn_id": ID.upper()}],
    ],
)
def test_equal_requests_have_one_fingerprint_however_they_are_written(same: list[dict[str, Any]]) -> None:
    assert len({digest(**fields) for fields in same}) == 1


def test_every_difference_gives_another_fingerprint() -> None:
    all_different = [
        digest(),
        digest("other"),
        digest(input="y"),
        digest(input={"x": 1}),
        digest(input={"x": "1"}),
        digest(queue="q"),
        digest(execute_at="2026-01-01T12:00:00Z"),
        digest(execute_at="2026-01-01T12:00:00.000001Z"),
        digest(max_attempts=1),
        digest(timeout_seconds=1),
        digest(expires_in_seconds=1),
        digest(metadata={}),
        digest(priority_seconds=1),
        digest(turn_id=ID),
        digest(on_busy="reject"),
        digest(webhook_url="https://a.example/x"),
    ]
    assert len(set(all_different)) == len(all_different)


def test_a_fingerprint_never_changes_or_every_repeat_across_a_deploy_would_be_refused() -> None:
    given = digest(input={"é": [1, 2.5]}, execute_at="2026-01-01T12:00:00Z", timeout_seconds=3, turn_id=ID)
    assert given.hex() == "f11381251ae0ad15a425b6790eb20a31a27704985208da3edf364f31ac66c3f8"


@pytest.mark.parametrize(
    ("fields", "accepted"), [({}, True), ({"timeout_seconds": 60}, True), ({"timeout_seconds": 60.1}, False)]
)
def test_a_queue_bounds_how_long_a_client_may_hold_a_slot(fields: dict[str, Any], accepted: bool) -> None:
    queue = QueueSettings(name="turns", max_timeout_seconds=60)
    settings = Settings(database_url="postgresql://127.0.0.1:1/none", queues=(queue,), queue="turns")
    body = json.dumps({"input": "x", **fields}).encode()
    reason = "^/timeout_seconds: must be at most 60 on queue 'turns'$"

    with nullcontext() if accepted else pytest.raises(InvalidRequestError, match=reason):
        read_submission(settings, "t", "s", body, key=None, now=NOW, random_bits=1)
