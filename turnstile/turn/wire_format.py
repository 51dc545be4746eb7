"""The wire format of SQS messages.

A message carries ids only, no personal data, and means "look at this session". The trace context
is in the message attributes, never in the body. `docs/asyncapi.yaml` describes the format.
"""

import json
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnstile.errors import MalformedMessageError
from turnstile.turn.identifiers import ID_PATTERN

MAX_BODY_CHARACTERS = 1024
"""Longest body of a wake-up. A longer one is not from Turnstile, whose bodies have ids only."""

MAX_VISIBILITY_SECONDS = 12 * 3600
"""Longest total time for which SQS keeps a message invisible, in seconds."""

TRACEPARENT = "traceparent"
DEAD_LETTER_REASON = "turnstile.reason"
DEAD_LETTER_GENERATION = "turnstile.generation"


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The body of one message. The turn id serves logs and redrive; no decision uses it."""

    tenant_id: str
    session_id: str
    turn_id: UUID

    def encode(self) -> str:
        body = {"v": 1, "tenant_id": self.tenant_id, "session_id": self.session_id, "turn_id": str(self.turn_id)}
        return json.dumps(body, separators=(",", ":"))


class _Body(BaseModel):
    # Fields that a later version may add are ignored.
    model_config = ConfigDict(strict=True)

    v: Annotated[int, Field(ge=1, le=1)]
    tenant_id: Annotated[str, Field(pattern=f"^{ID_PATTERN}$")]
    session_id: Annotated[str, Field(pattern=f"^{ID_PATTERN}$")]
    turn_id: UUID


def decode(body: str) -> WakeUp:
    """Reads a message body.

    Raises MalformedMessageError, which names the problem and quotes nothing, for a body that `WakeUp.encode` can't have written.
    """
    if len(body) > MAX_BODY_CHARACTERS:
        raise MalformedMessageError(f"body has {len(body)} characters, more than {MAX_BODY_CHARACTERS}")
    try:
        fields = _Body.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = fault["loc"][0] if fault["loc"] else "body"
        # pydantic's own message for a UUID quotes a character.
        says = "must be a UUID" if fault["type"] == "uuid_parsing" else fault["msg"]
        raise MalformedMessageError(f"{place}: {says}") from None
    return WakeUp(fields.tenant_id, fields.session_id, fields.turn_id)
