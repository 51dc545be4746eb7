"""Cursors for the next page of a list, which clients return unchanged. Pure.

A cursor contains the last turn of the previous page, not a row offset: new turns cause no repeated and no skipped rows. It has
the creation time and the id, because the order is by time and clients may choose the ids.
"""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from uuid import UUID

# The first character is the version. 24 bytes fill exactly 32 characters, so that each cursor has one spelling.
PATTERN = r"^1[A-Za-z0-9_-]{32}$"
LENGTH = 33
_CURSOR = re.compile(PATTERN)
_FIELDS = struct.Struct(">q16s")

# For the messages of a session: `seq` and ordinal. 12 bytes fill 16 characters.
MESSAGE_PATTERN = r"^2[A-Za-z0-9_-]{16}$"
MESSAGE_LENGTH = 17
_MESSAGE_CURSOR = re.compile(MESSAGE_PATTERN)
_MESSAGE_FIELDS = struct.Struct(">qi")
_END_OF_SESSION = 2**62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# All creation times lie between the epoch and this time. Postgres refuses some later times.
_END = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def encode(created_at: datetime, turn_id: UUID) -> str:
    """The cursor of the page that follows this turn."""
    packed = _FIELDS.pack((created_at - _EPOCH) // _MICROSECOND, turn_id.bytes)
    return "1" + urlsafe_b64encode(packed).decode()


def decode(cursor: str) -> tuple[datetime, UUID]:
    """The last turn before the page. Raises ValueError for any text that `encode` can't produce."""
    if len(cursor) != LENGTH or _CURSOR.match(cursor) is None:
        raise ValueError("not a cursor of this API")
    microseconds, turn_id = _FIELDS.unpack(urlsafe_b64decode(cursor[1:]))
    if not 0 <= microseconds < _END:
        raise ValueError("not a cursor of this API")
    return _EPOCH + microseconds * _MICROSECOND, UUID(bytes=turn_id)


def encode_message(seq: int, ordinal: int) -> str:
    """The cursor of the page that ends before this message of a session."""
    return "2" + urlsafe_b64encode(_MESSAGE_FIELDS.pack(seq, ordinal)).decode()


def decode_message(cursor: str) -> tuple[int, int]:
    """The first message after the page. Raises ValueError for any text that `encode_message` can't produce."""
    if len(cursor) != MESSAGE_LENGTH or _MESSAGE_CURSOR.match(cursor) is None:
        raise ValueError("not a cursor of this API")
    seq, ordinal = _MESSAGE_FIELDS.unpack(urlsafe_b64decode(cursor[1:]))
    if not (0 <= seq < _END_OF_SESSION and ordinal >= 0):
        raise ValueError("not a cursor of this API")
    return seq, ordinal
