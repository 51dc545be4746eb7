"""Cursors for the next page of a list, which clients return unchanged. Pure.

A cursor names the last turn or message of the previous page, not a row offset: new turns cause no repeated and no skipped rows.
A turn's has the creation time and the id, because the order is by time and clients may choose the ids.

The patterns have so few digits that Postgres and Python accept every time and number that matches.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

TURN_PATTERN = r"^[0-9]{1,16}\.[0-9a-f]{32}$"
MESSAGE_PATTERN = r"^[0-9]{1,18}\.[0-9]{1,9}$"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def encode_turn(created_at: datetime, turn_id: UUID) -> str:
    """The cursor of the page that follows this turn."""
    return f"{(created_at - _EPOCH) // _MICROSECOND}.{turn_id.hex}"


def decode_turn(cursor: str) -> tuple[datetime, UUID]:
    """The last turn before the page, from a text that matches TURN_PATTERN."""
    microseconds, _, turn_id = cursor.partition(".")
    return _EPOCH + int(microseconds) * _MICROSECOND, UUID(turn_id)


def encode_message(seq: int, ordinal: int) -> str:
    """The cursor of the page that ends before this message of a session."""
    return f"{seq}.{ordinal}"


def decode_message(cursor: str) -> tuple[int, int]:
    """The first message after the page, from a text that matches MESSAGE_PATTERN."""
    seq, _, ordinal = cursor.partition(".")
    return int(seq), int(ordinal)
