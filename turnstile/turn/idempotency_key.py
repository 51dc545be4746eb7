"""The keys that identify a submit, as `submissions` keeps them."""

from uuid import UUID


def idempotency_key(key: str) -> str:
    """The form of an Idempotency-Key in `submissions`, distinct from client-chosen turn ids."""
    return f"key:{key}"


def turn_id_key(turn_id: UUID) -> str:
    """The form of a turn id in `submissions`, for a request whose repeat only the id identifies."""
    return f"turn:{turn_id}"
