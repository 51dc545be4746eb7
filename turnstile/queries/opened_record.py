"""Opens what a turn's record has of contents. No read fails by one that can't be opened: most of its readers do not need them."""

from dataclasses import replace
from typing import TypeVar

from turnstile.sealing.contents import Contents
from turnstile.sealing.messages import try_message
from turnstile.sealing.place import ERROR, Place
from turnstile.turn.turn_record import TurnRecord

Record = TypeVar("Record", bound=TurnRecord)


def open_record(record: Record, contents: Contents) -> Record:
    """The record as a reader sees it. An input or a reply that can't be opened is an Unopened; an error says why."""
    whose = (record.tenant_id, record.session_id, record.id)
    inputs = record.inputs
    return replace(
        record,
        error=contents.show(record.error, Place(*whose, ERROR)),
        inputs=None if inputs is None else [try_message(contents, one, *whose, "user") for one in inputs],
        output=None if record.output is None else try_message(contents, record.output, *whose, "assistant"),
    )
