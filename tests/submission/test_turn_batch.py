"""The body of a batch: what is refused as a whole, and what each turn is read as."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.submit import Submission
from turnstile.submission.turn_batch import MOST_TURNS, read_batched_turn, split_batch
from turnstile.submission.turn_request import InvalidRequestError, NotJsonError, read_submission
from turnstile.turn.on_busy import OnBusy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = Settings(database_url="postgresql://127.0.0.1:1/none", queues=(QueueSettings(name="turns"),), queue="turns")


def read(text: bytes, settings: Settings = SETTINGS) -> Submission:
    return read_batched_turn(settings, "t", text, now=NOW, random_bits=1)


def read_one(**fields: Any) -> Submission:
    return read(json.dumps({"session_id": "s", "input": "x", **fields}).encode())


@pytest.mark.parametrize(
    "turns",
    [
        ['{"a": 1}'],
        ['{"a": [1, 2]}', "5", '"text, with ] and }"', "[[], {}]", "null"],
        ['{"twice": 1, "twice": 2}'],
        ['"\\ud83d\\ude00 \u00fc"', "-0.0", "1e400"],
    ],
)
def test_a_batch_is_split_into_the_texts_of_its_turns(turns: list[str]) -> None:
    spaced = ' \n{ "turns"\t: [ ' + " ,\r\n".join(turns) + " ] } "

    assert split_batch(spaced.encode()) == [turn.encode() for turn in turns]
    assert split_batch(f'{{"turns":[{",".join(turns)}]}}'.encode()) == [turn.encode() for turn in turns]


def test_a_name_with_an_escape_is_the_same_name() -> None:
    assert split_batch(b'{"\\u0074urns": [1]}') == [b"1"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"turns": []}', "/turns"),
        (b'{"turns": {"a": 1}}', "/turns"),
        (b"{}", "/turns"),
        (b"[]", ""),
        (b'{"turns": [1], "more": 1}', "/more"),
        (f'{{"turns": [{",".join("1" * (MOST_TURNS + 1))}]}}'.encode(), "/turns"),
        (b'{"turns": [' + b"[" * 300 + b"]" * 300 + b"]}", ""),
    ],
)
def test_a_body_that_is_no_batch_is_refused(body: bytes, pointer: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        split_batch(body)

    assert refused.value.faults[0][0] == pointer


@pytest.mark.parametrize(
    "body",
    [
        b'{"turns": [1], "turns": [2, 3]}',
        b'{"turns": [1, 2], "turns": [3]}',
        b'{"turns": [], "turns": [1]}',
        b'{"turns": 5, "turns": [1]}',
        b'{"turns": "[1", "turns": [1]}',
        b'{"turns": [1], "\\u0074urns": [1]}',
    ],
)
def test_two_lists_of_turns_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="two members 'turns'"):
        split_batch(body)


@pytest.mark.parametrize("body", [b"", b"{", b'{"turns": [1,]}', b'{"turns": [1]} {}', b'\xff{"turns": [1]}'])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotJsonError):
        split_batch(body)


def test_a_turn_of_a_batch_is_the_same_request_as_a_single_submit() -> None:
    """So a client may repeat it alone."""
    fields = {"input": {"a": 1}, "metadata": {"b": 2}, "on_busy": "merge", "priority_seconds": 5.0}
    single = read_submission(
        SETTINGS, "t", "s", json.dumps(fields).encode(), key="k", now=NOW, random_bits=1, traceparent=None
    )

    assert read_one(**fields, idempotency_key="k") == single
    assert single.on_busy is OnBusy.MERGE


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"session_id": ".x"}, "/session_id"),
        ({"session_id": "compensation:x"}, "/session_id"),
        ({"session_id": "4915112345678"}, "/session_id"),
        ({"session_id": 5}, "/session_id"),
        ({"idempotency_key": ""}, "/idempotency_key"),
        ({"idempotency_key": "x" * 256}, "/idempotency_key"),
        ({"idempotency_key": "\u00fc"}, "/idempotency_key"),
        ({"input": " "}, "/input"),
        ({"unknown": 1}, "/unknown"),
        ({"execute_at": "2100-01-01T00:00:00Z"}, "/execute_at"),
        ({"on_busy": "merge", "webhook_url": "https://a.example/"}, "/on_busy"),
    ],
)
def test_what_is_wrong_with_a_turn_is_named_as_in_a_single_submit(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_one(**fields)

    assert [at for at, _ in refused.value.faults] == [pointer]


@pytest.mark.parametrize("text", [b"5", b"null", b"[]", b'{"session_id": "s", "input": "x", "input": "y"}'])
def test_a_turn_that_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read(text)


def test_a_turn_names_its_session() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(b'{"input": "x"}')

    assert refused.value.faults == [("/session_id", "Field required")]


def test_a_deployment_may_take_ids_that_look_like_a_person() -> None:
    settings = SETTINGS.model_copy(update={"personal_session_ids": True})

    assert read(b'{"session_id": "4915112345678", "input": "x"}', settings).session_id == "4915112345678"
