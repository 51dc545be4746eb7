"""The form of a session's history in Redis: a list whose first element is its version. Pure.

    7 3f0c…e1 tail                                    seq and claim of the version; `whole`, or only the `tail` of it
    ["<turn id>",7,1,"assistant","2026-…"]\\n"text"    the newest message: its metadata, then its content, perhaps sealed
    …                                                  and so on, back to the oldest

The seal of a content binds its metadata, and so its place among the others.

Lua never decodes contents: it can't distinguish an empty list from an empty object, nor represent all integers above 2^53. An
entry ends before a content that is too large; readers that want it ask Postgres.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, takewhile
from uuid import UUID

import orjson

from turnstile.sealing.contents import Contents
from turnstile.sealing.place import Place, history_column
from turnstile.turn.conversation import HistoryVersion, Message, StoredMessage
from turnstile.turn.stored_json import encode

MAX_CONTENT_BYTES = 100 * 1024
"""Bytes of one content in Redis. A larger message would cost every reader of its session more than a query."""

WHOLE, TAIL = "whole", "tail"


@dataclass(frozen=True, slots=True)
class Owner:
    """The session of a history, and what seals its messages."""

    contents: Contents
    tenant_id: str
    session_id: str

    def place(self, turn_id: UUID, known: str) -> Place:
        return Place(self.tenant_id, self.session_id, turn_id, history_column(known))


@dataclass(frozen=True, slots=True)
class Entry:
    """The elements of the last messages of a history, newest first. `whole`: there are no earlier messages."""

    elements: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, newest_first: Sequence[StoredMessage], owner: "Owner", *, whole: bool) -> "Entry":
        """The messages up to the first that is too large."""
        fitting = tuple(_encode_message(message, owner) for message in takewhile(_fits, newest_first))
        return cls(fitting, whole and len(fitting) == len(newest_first))

    def reaches(self, limit: int) -> bool:
        """Whether the entry has all of the last `limit` messages."""
        return self.whole or len(self.elements) >= limit


NO_MESSAGES = Entry((), whole=False)
"""Reaches nothing."""


def encode_claim(claim_id: UUID | None) -> str:
    """The part of a header that is compared for equality."""
    return "-" if claim_id is None else claim_id.hex


def encode_header(version: HistoryVersion, *, whole: bool) -> str:
    """The first element of the list."""
    return f"{version.seq} {encode_claim(version.claim_id)} {WHOLE if whole else TAIL}"


def _encode_message(message: StoredMessage, owner: Owner) -> str:
    known = orjson.dumps([message.turn_id, message.seq, message.ordinal, message.role, message.created_at]).decode()
    return f"{known}\n{owner.contents.seal(str(message.text), owner.place(message.turn_id, known))}"


def decode_entry(header: str, *elements: str, limit: int) -> Entry:
    """The entry from its header and its newest elements, `limit` at most."""
    # If there are `limit` messages, the list may have earlier ones.
    return Entry(elements, header.endswith(f" {WHOLE}") and len(elements) < limit)


def decode_messages(newest_first: Sequence[str], owner: Owner, version: HistoryVersion) -> list[Message]:
    """The messages, oldest first. Raises ValueError: another version of this program may have written an element, or another
    program; or ContentsUnreadableError."""
    messages = [_decode_message(element, owner) for element in reversed(newest_first)]
    places = [(message.seq, message.ordinal) for message in messages]
    if places and (places[-1][0] != version.seq or any(one >= other for one, other in pairwise(places))):
        raise ValueError("the messages are not those of the version, or not in its order")
    return messages


def _decode_message(element: str, owner: Owner) -> Message:
    known, _, stored = element.partition("\n")
    try:
        turn_id, seq, ordinal, role, created_at = json.loads(known)
        turn = UUID(turn_id)
        return Message(
            turn_id=turn,
            seq=seq,
            ordinal=ordinal,
            role=role,
            content=json.loads(owner.contents.open_sealed(stored, owner.place(turn, known))),
            created_at=datetime.fromisoformat(created_at),
        )
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a message: {type(error).__name__}") from error


def to_text(message: Message) -> StoredMessage:
    return StoredMessage(
        turn_id=message.turn_id,
        seq=message.seq,
        ordinal=message.ordinal,
        role=message.role,
        text=encode(message.content),
        created_at=message.created_at,
    )


def _fits(message: StoredMessage) -> bool:
    return message.text is not None and len(message.text.encode()) <= MAX_CONTENT_BYTES
