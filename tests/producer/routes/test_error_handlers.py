"""What a refusal says: the field, and the rule in words."""

import pytest
from fastapi import Request
from fastapi.exceptions import RequestValidationError

from turnstile.ops.commands.dlq import count_in_words
from turnstile.producer.http.problems import ProblemError
from turnstile.producer.http.request_body import read_json
from turnstile.producer.routes.error_handlers import translate
from turnstile.producer.routes.turns import SessionId, _status
from turnstile.turn.message import ID_RULE


def test_a_session_id_that_is_refused_is_told_the_rule_in_words() -> None:
    from pydantic import TypeAdapter, ValidationError

    with pytest.raises(ValidationError) as refused:
        TypeAdapter(SessionId).validate_python("alice@example.com")
    errors = [{**fault, "loc": ("path", "session_id")} for fault in refused.value.errors()]

    assert translate(RequestValidationError(errors), "/").detail == f"session_id: must be {ID_RULE}"


async def test_what_cannot_be_stored_is_named_with_its_field() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'{"input": "a\\u0000b"}', "more_body": False}

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)
    with pytest.raises(ProblemError) as refused:
        await read_json(request, 65_536)

    assert refused.value.detail == "/input: contains U+0000"


def test_a_status_has_one_spelling_in_what_is_told() -> None:
    with pytest.raises(ProblemError) as refused:
        _status("done")

    assert refused.value.detail == "status: one of PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED"


@pytest.mark.parametrize(
    ("count", "words"),
    [(None, "unknown, SQS is away"), (0, "about 0 messages"), (1, "about 1 message"), (2, "about 2 messages")],
)
def test_one_message_is_no_messages(count: int | None, words: str) -> None:
    assert count_in_words(count) == words
