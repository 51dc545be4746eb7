"""Streams (I17): ids that rise and leave no gap, one end, the words of one attempt at a time, and at the end what the row says.

An id is `<fence>-<n>`. A reader may miss events only before one that starts over: the first of an attempt, a `reset` with the
whole text, or what comes from the table when the stream is gone. The handlers of a run say words that carry their fence
and their number, so that a text which mixes attempts, doubles a word or leaves one out shows by itself.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.proof.checker.evidence import StreamRead
from tests.proof.checker.ledger import Ledger, grouped
from tests.proof.checker.rule import Findings, rule

ENDS = frozenset({"end", "error"})
SHARE_FROM_THE_TABLE = 1 / 3
"""Now and then a reader looks in the moment between the settle and the end event. As a rule it gets the end by event."""
FROM_THE_TABLE = 10**15
"""Numbers from here on: the end was read from the table, not from the stream."""

Event = dict[str, Any]
Place = tuple[int, int]

_ID = re.compile(r"(\d+)-(\d+)")


@rule("I17")
def streams_are_whole(ledger: Ledger) -> Findings:
    reads_of = grouped(ledger.evidence.streams, lambda read: (read.turn_id, read.reader))
    for (turn_id, reader), reads in reads_of.items():
        for claim in _Reader(ledger, turn_id).faults(reads):
            yield turn_id, f"{reader} {claim}"


class _Reader:
    """One reader of a turn, over all its connections."""

    def __init__(self, ledger: Ledger, turn_id: str) -> None:
        self._ledger = ledger
        self._turn_id = turn_id
        self._place: Place | None = None
        self._text: str | None = ""
        """None: it begins in the middle, with a text that is not in evidence."""
        self._ended = False

    def faults(self, reads: Sequence[StreamRead]) -> Iterator[str]:
        resumed = _ID.fullmatch(reads[0].after or "")
        if resumed is not None:
            self._place, self._text = (int(resumed[1]), int(resumed[2])), None
        for read in reads:
            if read.events and read.events[0]["event"] != "metadata":
                yield f"got {read.events[0]['event']} before the metadata"
            for event in read.events[1:]:
                yield from self._fault(event)

    def _fault(self, event: Event) -> Iterator[str]:
        named = _ID.fullmatch(str(event.get("id")))
        if named is None:
            yield f"got {event['event']} without an id to resume from"
            return
        place = int(named[1]), int(named[2])
        if self._ended:
            yield f"got {event['event']} {place} after the end"
        if self._place is not None and place <= self._place:
            yield f"got ids that do not rise: {place} after {self._place}"
        starts_over = place[1] == 1 or place[1] >= FROM_THE_TABLE or event["event"] == "reset"
        before = self._place or (place[0], 0)
        if not starts_over and place != (before[0], before[1] + 1):
            yield f"got {event['event']} {place} after {self._place or 'nothing'}: a gap"
        self._place = place
        yield from self._words(event, place)
        if event["event"] in ENDS:
            self._ended = True
            yield from self._end(json.loads(event["data"]))

    def _words(self, event: Event, place: Place) -> Iterator[str]:
        match event["event"]:
            case "delta" if self._text is not None:
                self._text += json.loads(event["data"])["text"]
            case "reset":
                self._text = json.loads(event["data"])["text"]
            case _:
                if place[1] == 1:
                    self._text = ""
                return
        words = self._text.split()
        if words != [f"{place[0]}.{number}" for number in range(len(words))]:
            yield f"got under fence {place[0]} the text {self._text[:200]!r}"

    def _end(self, data: dict[str, Any]) -> Iterator[str]:
        row = self._ledger.rows.get(self._turn_id)
        if row is None:
            yield "got the end of a turn without a row"
            return
        status = data["status"]
        if status == "FAILED":
            # A redrive may have brought it back since.
            if not any(change.after == status for change in self._ledger.changes[self._turn_id]):
                yield "got the end FAILED, which it never was"
        elif status != row.status:
            yield f"got the end {status}, and it is {row.status}"
        reply = self._ledger.reply_of(self._turn_id)
        if status == "SUCCEEDED" and data.get("output") != reply:
            yield f"got the output {data.get('output')!r}, and the reply is {reply!r}"


@rule("I17")
def workers_close_streams(ledger: Ledger) -> Findings:
    """In a calm run, readers get the end from the table only where no worker sent it."""
    ends = [
        (read, str(event["id"]))
        for read in (ledger.evidence.streams if ledger.terms.calm else ())
        for event in read.events
        if event["event"] in ENDS and event["id"]
    ]
    by_table = [(read, place) for read, place in ends if int(place.partition("-")[2]) >= FROM_THE_TABLE]
    for read, place in by_table if len(by_table) > max(1, SHARE_FROM_THE_TABLE * len(ends)) else ():
        yield read.turn_id, f"{read.reader} got the end {place} from the table, and nothing was wrong"
