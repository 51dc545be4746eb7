"""The wire format of SQS messages.

A message carries ids only and means "look at this session" (G23: no personal data in the payload). The trace context
is in the message attributes, never in the body (G24). `docs/asyncapi.yaml` describes the format.
"""

import json
import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turnstile.errors import MalformedMessageError

VERSION = 1
MAX_BODY_CHARACTERS = 1024
"""Longest body of a wake-up. A longer one is not from Turnstile, whose bodies have ids only."""

ID_PATTERN = r"[A-Za-z0-9._:-]{1,128}"
ID_RULE = "1 to 128 of A-Z a-z 0-9 . _ : -"
"""ID_PATTERN in words, for error messages."""

DEFAULT_TENANT = "default"
"""The tenant of turns if no API keys are configured, or if a command names no tenant."""

_ID = re.compile(ID_PATTERN)
_decode_json = json.JSONDecoder().decode

MAX_VISIBILITY_SECONDS = 12 * 3600
"""Longest total time for which SQS keeps a message invisible, in seconds."""

TRACEPARENT = "traceparent"
DEAD_LETTER_REASON = "turnstile.reason"
DEAD_LETTER_GENERATION = "turnstile.generation"


def is_valid_id(text: str) -> bool:
    """Whether `text` may name a tenant or a session."""
    return _ID.fullmatch(text) is not None


def is_reserved_session(session_id: str) -> bool:
    """Whether only a settle may create turns in the session. A compensation must be the first turn of its session."""
    return session_id.startswith("compensation:")


RESERVED_RULE = "a session whose name begins with compensation: is for compensations"
"""The rule of `is_reserved_session` in words, for error messages."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The body of one message. The turn id serves logs and redrive; no decision uses it."""

    tenant_id: str
    session_id: str
    turn_id: UUID

    def encode(self) -> str:
        """The JSON body, without whitespace."""
        body = {"v": VERSION, "tenant_id": self.tenant_id, "session_id": self.session_id, "turn_id": str(self.turn_id)}
        return json.dumps(body, separators=(",", ":"))


def decode(body: str) -> WakeUp:
    """Reads a message body.

    Raises MalformedMessageError, which names the problem, for a body that `WakeUp.encode` can't have written.
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
