"""A turn as the API tells it, for tests of readers: its events as bytes, from any place, through connections that break."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

HEARTBEAT = b": heartbeat\n\n"
TURN = "01900000-0000-7000-8000-000000000001"


@dataclass(frozen=True)
class Told:
    kind: str
    data: dict[str, Any]
    id: str | None = None

    def encode(self) -> bytes:
        place = "" if self.id is None else f"id: {self.id}\n"
        return f"{place}event: {self.kind}\ndata: {json.dumps(self.data, ensure_ascii=False)}\n\n".encode()


def tell(attempts: list[list[str | int]], *, status: str = "SUCCEEDED") -> list[Told]:
    """The events of a turn. An attempt has texts and numbers: 0 is a `reset`, another number an event of the handler's own."""
    told = []
    text = ""
    for fence, said in enumerate(attempts, start=1):
        told.append(Told("status", {"status": "RUNNING", "attempt": fence}, f"{fence}-1"))
        text = ""
        for n, one in enumerate(said, start=2):
            if isinstance(one, str):
                text += one
                told.append(Told("delta", {"text": one}, f"{fence}-{n}"))
            elif one == 0:
                told.append(Told("reset", {"text": text, "attempt": fence}, f"{fence}-{n}"))
            else:
                told.append(Told("custom", {"number": one, "attempt": fence}, f"{fence}-{n}"))
        if fence < len(attempts):
            waits = {"status": "PENDING", "attempt": fence, "outcome": "retried", "after_seconds": 1.0}
            told.append(Told("status", waits, f"{fence}-{len(said) + 2}"))
    last = f"{len(attempts)}-{len(attempts[-1]) + 2}"
    if status == "FAILED":
        error = {"class": "Reject", "message": "no"}
        return [*told, Told("error", {"turn_id": TURN, "status": status, "error": error}, last)]
    return [*told, Told("end", {"turn_id": TURN, "status": status, "output": text}, last)]


class Breaking(httpx2.SyncByteStream):
    """A body in pieces, after which the connection breaks, unless it is whole."""

    def __init__(self, pieces: list[bytes], *, whole: bool) -> None:
        self._pieces = pieces
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if not self._whole:
            raise httpx2.ReadError("the connection broke")


@dataclass
class Events:
    """Answers `GET /v1/turns/{id}/events`. Each connection breaks after the next number of `cuts`; without one, not at all."""

    told: list[Told]
    cuts: list[int] = field(default_factory=list)
    piece: int = 7
    asked: list[str | None] = field(default_factory=list)
    """The Last-Event-ID of each request."""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        last = request.headers.get("last-event-id")
        self.asked.append(last)
        places = [one.id for one in self.told]
        rest = self.told[places.index(last) + 1 :] if last is not None else self.told
        if not rest:
            return httpx2.Response(204)
        known = {"turn_id": TURN, "session_id": "s", "status": "RUNNING", "attempt": 1}
        body = HEARTBEAT.join(one.encode() for one in [Told("metadata", known), *rest])
        cut = self.cuts.pop(0) if self.cuts else None
        sent = body[:cut]
        pieces = [sent[start : start + self.piece] for start in range(0, len(sent), self.piece)]
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx2.Response(200, headers=headers, stream=Breaking(pieces, whole=cut is None))
