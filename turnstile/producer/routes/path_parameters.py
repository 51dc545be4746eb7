"""The parts of a path, and the 404s of what they name."""

import re
from typing import Annotated
from uuid import UUID

from fastapi import Path

from turnstile.producer.http.problems import Kind, ProblemError
from turnstile.turn.identifiers import ID_PATTERN, ID_RULE

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

SessionId = Annotated[
    str,
    Path(
        pattern=rf"^{ID_PATTERN}$",
        description=f"The conversation's id, chosen by the client: {ID_RULE}. It names no person: queues and logs have the id. A"
        " submit refuses what looks like an e-mail address or a phone number (9 to 15 digits), unless the deployment takes it.",
    ),
]
TurnIdText = Annotated[str, Path(alias="turn_id", json_schema_extra={"format": "uuid"})]


def read_turn_id(text: str) -> UUID:
    """The id in a path. Raises the 404."""
    # Python's own parser would also accept braces, `urn:` and missing dashes.
    if _UUID.fullmatch(text) is None:
        # The same 404 as for a turn of another tenant.
        raise no_turn()
    return UUID(text)


def no_turn() -> ProblemError:
    return ProblemError(Kind.NOT_FOUND, "no such turn")


def no_session() -> ProblemError:
    return ProblemError(Kind.NOT_FOUND, "no such session")
