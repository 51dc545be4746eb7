"""What a submit from the command line may name, whichever way it goes. Imports no driver."""

import re
from typing import Any

from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.producer.submit.turn_request import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS
from turnstile.turn.message import ID_RULE, RESERVED_RULE, is_reserved_session, is_valid_id


def check_id(name: str, value: Any) -> None:
    """Raises CommandError, without the value, unless it may name a tenant or a session."""
    if not isinstance(value, str) or not is_valid_id(value):
        raise CommandError(f"{name} must be {ID_RULE}", ExitCode.USAGE)


def check_session(session_id: Any) -> None:
    """Raises CommandError unless a client may put turns into a session of that name."""
    check_id("the session", session_id)
    if is_reserved_session(session_id):
        raise CommandError(RESERVED_RULE, ExitCode.USAGE)


def check_key(key: Any) -> None:
    """Raises CommandError unless it may be an Idempotency-Key. The API's rule, as a header carries it there."""
    fits = isinstance(key, str) and len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS
    if not fits or re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key) is None or key.endswith("\n"):
        rule = f"1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters, with no space at either end"
        raise CommandError(f"the idempotency key must be {rule}", ExitCode.USAGE)
