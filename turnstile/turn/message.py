"""The wire format: what an SQS message says, and what it refuses to say.

A message carries ids only and means "look at this session" (G23: no personal data in the payload). The trace context
travels in the message attributes, never in the body (G24). `docs/asyncapi.yaml` describes it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turnstile.errors import MalformedMessageError

VERSION = 1
MAX_BODY_CHARACTERS = 1024
"""Ids only: a longer body is somebody else's message."""

ID_PATTERN = r"[A-Za-z0-9._:-]{1,128}"
ID_RULE = "1 to 128 of A-Z a-z 0-9 . _ : -"
"""The pattern, for people."""

DEFAULT_TENANT = "default"
"""Whose turns they are where no keys are configured, or a command names nobody."""

_ID = re.compile(ID_PATTERN)
_decode_json = json.JSONDecoder().decode

MAX_VISIBILITY_SECONDS = 12 * 3600
"""SQS refuses to keep a message invisible for longer than 12 h in all."""

TRACEPARENT = "traceparent"
DEAD_LETTER_REASON = "turnstile.reason"
DEAD_LETTER_GENERATION = "turnstile.generation"


def is_valid_id(text: str) -> bool:
    """Whether `text` may name a tenant or a session."""
    return _ID.fullmatch(text) is not None


def is_reserved_session(session_id: str) -> bool:
    """Whether nobody but a settle may put turns there: a compensation is born as the first turn of its session, or not at all."""
    return session_id.startswith("compensation:")


RESERVED_RULE = "a session whose name begins with compensation: is for compensations"
"""The rule, for people."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """One message's body. The turn is named for logs and redrive; nothing is decided from it."""

    tenant_id: str
    session_id: str
    turn_id: UUID

    def encode(self) -> str:
        """The JSON body, without white space."""
        body = {"v": VERSION, "tenant_id": self.tenant_id, "session_id": self.session_id, "turn_id": str(self.turn_id)}
        return json.dumps(body, separators=(",", ":"))


def decode(body: str) -> WakeUp:
    """Reads a message body.

    Raises MalformedMessageError, which names what is wrong, for anything that `WakeUp.encode` could not have written.
    """
    if len(body) > MAX_BODY_CHARACTERS:
        raise MalformedMessageError(f"body has {len(body)} characters, more than {MAX_BODY_CHARACTERS}")
    try:
        fields = _decode_json(body)
    except (ValueError, RecursionError):
        raise MalformedMessageError("body is not JSON") from None
    if not isinstance(fields, dict):
        raise MalformedMessageError("body is not a JSON object")
    if fields.get("v") != VERSION or isinstance(fields["v"], bool):
        raise MalformedMessageError("unknown message version")
    return WakeUp(_id(fields, "tenant_id"), _id(fields, "session_id"), _turn_id(fields))


def _id(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not is_valid_id(value):
        raise MalformedMessageError(f"{name} is missing or not an id")
    return value


def _turn_id(fields: dict[str, Any]) -> UUID:
    value = fields.get("turn_id")
    if not isinstance(value, str):
        raise MalformedMessageError("turn_id is missing")
    try:
        return UUID(value)
    except ValueError:
        raise MalformedMessageError("turn_id is not a UUID") from None
