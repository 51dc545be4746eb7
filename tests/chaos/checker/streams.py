"""Streams (I17): a reader gets every event once, in order, from wherever it resumes, and the deltas make the reply."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tests.chaos.checker.evidence import StreamRead
from tests.chaos.checker.ledger import Ledger
from tests.chaos.checker.violation import Violation

DELTA = "delta"
ENDS = frozenset({"succeeded", "failed", "canceled"})
"""The events after which there are no more."""

Event = dict[str, Any]


def streams(ledger: Ledger) -> Iterator[Violation]:
    """I17."""
    readers: defaultdict[str, list[StreamRead]] = defaultdict(list)
    for read in ledger.evidence.streams:
        readers[read.turn_id].append(read)
    for turn_id, reads in readers.items():
        full = next((read for read in reads if read.after is None and read.complete), None)
        for read in reads:
            for says in _faults(read, full):
                yield Violation("I17", f"{read.reader} {says}", turn_id, ledger.session_of(turn_id))
        if full is not None:
            for says in _unlike_the_reply(ledger, turn_id, full.events):
                yield Violation("I17", f"{full.reader} {says}", turn_id, ledger.session_of(turn_id))


def _faults(read: StreamRead, full: StreamRead | None) -> Iterator[str]:
    ids = [str(event["id"]) for event in read.events]
    if full is not None:
        reference = [str(event["id"]) for event in full.events]
        if read.after is not None and read.after not in reference:
            yield f"resumed after {read.after}, which the stream never had"
            return
        start = 0 if read.after is None else reference.index(read.after) + 1
        due = full.events[start:] if read.complete else full.events[start : start + len(ids)]
        if list(read.events) != list(due):
            yield f"got {ids} after {read.after or 'the start'} where the stream had {reference[start:]}"
    numbers = [int(one) for one in ids if one.isdecimal()]
    first = [int(read.after)] if read.after is not None and read.after.isdecimal() else []
    numbers = first + numbers
    if any(later != earlier + 1 for earlier, later in itertools.pairwise(numbers)):
        yield f"got ids that do not rise by one: {numbers}"
    ends = [place for place, event in enumerate(read.events) if event.get("event") in ENDS]
    if read.complete and ends != [len(ids) - 1]:
        yield f"got {len(ends)} terminal events in a stream that has ended"
    elif len(ends) > 1:
        yield f"got {len(ends)} terminal events"


def _unlike_the_reply(ledger: Ledger, turn_id: str, events: Sequence[Event]) -> Iterator[str]:
    reply = next(
        (e.content for e in ledger.said.get(turn_id, ()) if e.role == "assistant" and e.kind == "message"), None
    )
    deltas = [event for event in events if event.get("event") == DELTA]
    if not isinstance(reply, str) or not deltas:
        return
    last = max(event.get("attempt", 0) for event in deltas)
    text = "".join(str(event["data"]) for event in deltas if event.get("attempt", 0) == last)
    if text != reply:
        yield f"got deltas that make {text!r}, and the reply is {reply!r}"
