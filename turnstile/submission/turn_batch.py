"""The body of a batch of submits, and its turns one by one. Pure.

A turn of a batch is read from its own text, by the rules of a single submit: what is wrong with it is wrong with no other, and a
client that sends it again alone, under the same key, finds the same turn.
"""

import json
import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from turnstile.config.settings import Settings
from turnstile.statements.submit import Submission
from turnstile.submission.submission_key import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS
from turnstile.submission.turn_request import (
    InvalidRequestError,
    TurnRequest,
    check_fields_together,
    make_submission,
    read_request,
    validate_request,
)
from turnstile.turn.identifiers import (
    ID_PATTERN,
    ID_RULE,
    RESERVED_RULE,
    is_reserved_session,
    is_valid_id,
)
from turnstile.turn.personal_id import PERSONAL_RULE, is_personal

MOST_TURNS = 500
"""Turns of a batch."""

_BEGINNING = re.compile(r'\s*{\s*"[^"]*"\s*:\s*\[')
_SPACE = re.compile(r"\s*")
_COMMA = re.compile(r"\s*,\s*")
_END = re.compile(r"\s*]\s*}\s*\Z")
_DECODER = json.JSONDecoder()


def _check_session_id(value: str) -> str:
    if not is_valid_id(value):
        raise ValueError(f"must be {ID_RULE}")
    if is_reserved_session(value):
        raise ValueError(f"must be another one: {RESERVED_RULE}")
    return value


class BatchedTurn(TurnRequest):
    """A turn of a batch: the body of a submit, with what a single submit has in its path and in its header."""

    # Excluded from what tells two requests apart: there, a single submit has the session and the key already.
    session_id: Annotated[
        str,
        AfterValidator(_check_session_id),
        WithJsonSchema({"type": "string", "pattern": f"^{ID_PATTERN}$"}),
        Field(exclude=True, description="The conversation's id, as in the path of a single submit."),
    ]
    idempotency_key: Annotated[
        str | None,
        Field(
            exclude=True,
            min_length=1,
            max_length=MAX_IDEMPOTENCY_KEY_CHARACTERS,
            pattern=IDEMPOTENCY_KEY_PATTERN,
            description="As the header `Idempotency-Key` of a single submit.",
        ),
    ] = None


class TurnBatch(BaseModel):
    """The body of a batch of submits."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    turns: Annotated[list[BatchedTurn], Field(min_length=1, max_length=MOST_TURNS)]


class _UnreadBatch(BaseModel):
    """The same, whatever its turns are."""

    model_config = TurnBatch.model_config

    turns: Annotated[list[Any], Field(min_length=1, max_length=MOST_TURNS)]


def split_batch(body: bytes) -> list[bytes]:
    """The JSON texts of the turns. Raises InvalidRequestError if the body is not a batch, whatever its turns are."""
    turns = validate_request(_UnreadBatch, body).turns
    text = body.decode()
    found = []
    try:
        place = _skip(_BEGINNING, text, 0)
        for number in range(len(turns)):
            place = _skip(_COMMA if number else _SPACE, text, place)
            _, end = _DECODER.raw_decode(text, place)
            found.append(text[place:end].encode())
            place = end
        _skip(_END, text, place)
    except ValueError:
        # The text is JSON, and an object that has `turns` alone.
        raise InvalidRequestError([("", "has an object with two members 'turns': give it once")]) from None
    return found


def _skip(what: re.Pattern[str], text: str, place: int) -> int:
    """Where the text goes on behind `what`. Raises ValueError if it is not there."""
    found = what.match(text, place)
    if found is None:
        raise ValueError
    return found.end()


def read_batched_turn(
    settings: Settings,
    tenant_id: str,
    text: bytes,
    *,
    now: datetime,
    random_bits: int,
    traceparent: str | None = None,
    xray: str | None = None,
) -> Submission:
    """The submission for the JSON text of one turn of a batch. Raises what `read_submission` raises."""
    request = read_request(BatchedTurn, text)
    check_fields_together(request, now)
    if is_personal(request.session_id) and not settings.personal_session_ids:
        raise InvalidRequestError([("/session_id", PERSONAL_RULE)])
    return make_submission(
        settings,
        tenant_id,
        request.session_id,
        request,
        key=request.idempotency_key,
        now=now,
        random_bits=random_bits,
        traceparent=traceparent,
        xray=xray,
    )
