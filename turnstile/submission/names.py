"""What a submit may be called: its tenant, its session, its idempotency key. Pure.

For submits without the API, which states the same rules as the types of its parameters.
"""

import re
from typing import Any

from turnstile.submission.submission_key import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS
from turnstile.turn.identifiers import ID_RULE, RESERVED_RULE, is_reserved_session, is_valid_id
from turnstile.turn.personal_id import PERSONAL_RULE, is_personal


def find_tenant_fault(tenant_id: Any) -> str | None:
    """Why turns can't be of the tenant; None if they can."""
    return None if _is_id(tenant_id) else f"the tenant must be {ID_RULE}"


def find_session_fault(session_id: Any, *, personal: bool) -> str | None:
    """The same for the session that clients submit to. `personal`: whether its id may look like a person's."""
    if not _is_id(session_id):
        # Without the value: it may be a secret in the wrong place.
        return f"the session must be {ID_RULE}"
    if is_reserved_session(session_id):
        return RESERVED_RULE
    return f"the session {PERSONAL_RULE}" if not personal and is_personal(session_id) else None


def find_key_fault(key: Any) -> str | None:
    """The same for an idempotency key, which must fit into the header Idempotency-Key of the API."""
    fits = isinstance(key, str) and len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS
    if fits and re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key) is not None:
        return None
    rule = f"1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters, without a space at either end"
    return f"the idempotency key must be {rule}"


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and is_valid_id(value)
