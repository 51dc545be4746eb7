"""Streams of a calm run (I17): workers close them. Readers get the end from the table only where no worker did."""

from collections.abc import Iterator

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.streams import ENDS, FROM_THE_TABLE
from tests.proof.checker.violation import Violation

SHARE = 1 / 3
"""Now and then a reader looks in the moment between the settle and the last words. As a rule he is told by event."""


def closed_by_workers(ledger: Ledger) -> Iterator[Violation]:
    if not ledger.terms.calm:
        return
    ends = [
        (read, str(event["id"]))
        for read in ledger.evidence.streams
        for event in read.events
        if event["event"] in ENDS and event["id"]
    ]
    by_table = [(read, place) for read, place in ends if int(place.partition("-")[2]) >= FROM_THE_TABLE]
    if len(by_table) > 1 and len(by_table) > SHARE * len(ends):
        for read, place in by_table:
            says = f"{read.reader} was told the end {place} from the table, and nothing was wrong"
            yield Violation("I17", says, read.turn_id, ledger.session_of(read.turn_id))
