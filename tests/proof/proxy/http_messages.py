"""HTTP/1.1 as SQS clients and the emulator speak it: bodies with a Content-Length, one request at a time."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_REASONS = {200: "OK", 400: "Bad Request", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A request or an answer. The head is kept as it came, up to and with the empty line."""

    head: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.head + self.body

    def header(self, name: str) -> str:
        found = re.search(rb"\r\n" + name.encode() + rb": *([^\r]*)", self.head, re.IGNORECASE)
        return found[1].decode("latin-1") if found else ""

    @property
    def status(self) -> int:
        return int(self.head[9:12])

    def json(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def with_body(self, body: bytes) -> "HttpMessage":
        length = b"\r\nContent-Length: %d" % len(body)
        return HttpMessage(_LENGTH.sub(lambda _: length, self.head, count=1), body)


def answer(status: int, content: dict[str, Any], error: str = "") -> HttpMessage:
    """An answer as SQS gives it. `error` is its code, which old clients read from a header of its own."""
    body = json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", "Content-Type: application/x-amz-json-1.0"]
    if error:
        lines.append(f"x-amzn-query-error: {error};{'Sender' if status < 500 else 'Receiver'}")
    lines.append(f"Content-Length: {len(body)}")
    return HttpMessage("\r\n".join(lines).encode() + _END, body)


def refusal(status: int, code: str, text: str) -> HttpMessage:
    return answer(status, {"__type": f"com.amazonaws.sqs#{code}", "message": text}, code)


class HttpReader:
    """Cuts a stream into messages. Raises ValueError for a head without a length."""

    def __init__(self) -> None:
        self._rest = b""
        self._wanted = 0
        """No use to look before there are so many bytes."""

    def feed(self, data: bytes) -> Iterator[HttpMessage]:
        self._rest = self._rest + data if self._rest else data
        while len(self._rest) >= max(self._wanted, 1):
            end = self._rest.find(_END)
            if end < 0:
                return
            end += len(_END)
            head = self._rest[:end]
            found = _LENGTH.search(head)
            if found is None and head.startswith(b"POST"):
                raise ValueError("a request without Content-Length")
            if found is None and b"transfer-encoding" in head.lower():
                raise ValueError("an answer without Content-Length")
            self._wanted = end + (int(found[1]) if found else 0)
            if len(self._rest) < self._wanted:
                return
            message = HttpMessage(head, self._rest[end : self._wanted])
            self._rest, self._wanted = self._rest[self._wanted :], 0
            yield message
