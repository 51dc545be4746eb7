"""Event streams: I17."""

import json
from typing import Any

from tests.proof.checker.evidence import Evidence, StreamRead
from tests.proof.tests.checker.conviction import Convicts, answered

REPLY: dict[str, Any] = {"turn": "a", "fence": 1}


def event(place: str | None, kind: str, **data: Any) -> dict[str, Any]:
    return {"id": place, "event": kind, "data": json.dumps(data)}


METADATA = event(None, "metadata", status="PENDING")
BEGUN = event("1-1", "status", status="RUNNING", attempt=1)
WORDS = event("1-2", "delta", text="1.0 1.1 ")
MORE = event("1-3", "delta", text="1.2 ")
END = event("1-4", "end", status="SUCCEEDED", output=REPLY)
LATE_END = event(f"1-{10**15 + 1}", "end", status="SUCCEEDED", output=REPLY)
ALL = [METADATA, BEGUN, WORDS, MORE, END]


def read(*connections: list[dict[str, Any]], after: str | None = None) -> Evidence:
    """One reader got these events, connection by connection."""
    scene = answered()
    for events in connections:
        scene.evidence.streams.append(StreamRead(reader="r", turn_id="a", after=after, events=events))
    return scene.rest()


def closed_from_the_table(readers: int) -> Evidence:
    evidence = answered().rest(calm=True)
    for number in range(readers):
        evidence.streams.append(StreamRead(reader=f"r{number}", turn_id="a", after=None, events=[METADATA, LATE_END]))
    return evidence


def convicts(words: str, *connections: list[dict[str, Any]], after: str | None = None) -> Convicts:
    return Convicts("I17", words, read(*connections, after=after))


CONVICTED = (
    convicts("before the metadata", [BEGUN, WORDS, MORE, END]),
    convicts("without an id", [METADATA, BEGUN, event(None, "delta", text="1.0 ")]),
    convicts("end (1, 4) after (1, 2): a gap", [METADATA, BEGUN, WORDS], [METADATA, END]),
    convicts("delta (1, 3) after (1, 1): a gap", [METADATA, MORE, END], after="1-1"),
    convicts("ids that do not rise", [METADATA, BEGUN, WORDS], [METADATA, WORDS, MORE, END]),
    convicts("after the end", [*ALL, event("1-5", "delta", text="1.3 ")]),
    convicts("the text '1.0 1.0 '", [METADATA, BEGUN, event("1-2", "delta", text="1.0 1.0 ")]),
    convicts("the text '1.0 1.1 2.0 '", [METADATA, BEGUN, WORDS, event("2-2", "delta", text="2.0 ")]),
    convicts("the end CANCELED, and it is SUCCEEDED", [METADATA, BEGUN, event("1-2", "end", status="CANCELED")]),
    convicts("FAILED, which it never was", [METADATA, BEGUN, event("1-2", "error", status="FAILED")]),
    convicts("got the output '?'", [METADATA, BEGUN, event("1-2", "end", status="SUCCEEDED", output="?")]),
    Convicts("I17", "from the table, and nothing was wrong", closed_from_the_table(2)),
)
