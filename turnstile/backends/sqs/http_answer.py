"""Answers of HTTP/1.1 out of the bytes of one connection, in whatever pieces they come (RFC 9112).

As much of it as those have who speak SQS: a length, chunks, or no body at all. Two who disagree about where an answer ends can be
made to take a part of it for the next one, so whatever may be read in two ways is refused, or is the last of its connection.
"""

import re
from typing import NamedTuple

LINE_END = b"\r\n"
HEAD_END = b"\r\n\r\n"

MOST_BYTES = 64 * 1024 * 1024
"""Of a body, with all that chunks put around it. SQS hands out ten messages of a mebibyte, and JSON may write a byte as six."""
HEAD_BYTES = 64 * 1024
LINE_BYTES = 8 * 1024
"""Of what says how long a chunk is, and of a trailer."""

BODILESS = (204, 304)
SWITCHING_PROTOCOLS = 101

# Python's int would take signs, blanks and underscores, too.
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?")
# With its colon: the head of an answer that follows a forgotten end has none in its first line.
TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*")


class HttpAnswer(NamedTuple):
    """`headers` by their names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_last: bool
    """Nothing that comes on its connection afterwards may be believed."""


Head = tuple[int, dict[str, str], int | None, bool]
"""Status, headers, the body's length (None for chunks) and whether it is the last."""


class AnswerReader:
    """For one answer after the other. Of no use any more after a ValueError, or an answer that is the last."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._head: Head | None = None
        self._chunks = _Chunks()

    def feed(self, data: bytes) -> HttpAnswer | None:
        """The answer, once it is whole; ValueError as soon as what has come can't become one."""
        received = self._received
        received += data
        head = self._head
        if head is None:
            head = self._head = _take_head(received)
            if head is None:
                return None
        status, headers, length, is_last = head
        if length is None:
            body = self._chunks.take(received)
            if body is None:
                return None
            self._chunks = _Chunks()
        else:
            if len(received) < length:
                return None
            body = bytes(received[:length])
            del received[:length]
        self._head = None
        # Bytes beyond the answer belong to nothing that was asked.
        return HttpAnswer(status, headers, body, is_last or len(received) > 0)


class _Chunks:
    """A body in chunks, which are taken away from what was received as they become whole."""

    def __init__(self) -> None:
        self._body = bytearray()
        self._size: int | None = None
        self._is_behind_the_last = False
        self._room = MOST_BYTES

    def take(self, received: bytearray) -> bytes | None:
        """The whole of it, once it is there."""
        while True:
            if self._size is not None and not self._take_chunk(received, self._size):
                return None
            line = _take_line(received)
            if line is None:
                return None
            self._count(len(line) + len(LINE_END))
            if not self._is_behind_the_last:
                self._begin_chunk(line)
            elif not line:
                return bytes(self._body)
            elif not TRAILER.fullmatch(line):
                raise ValueError("an answer with a trailer that is none")

    def _begin_chunk(self, line: bytearray) -> None:
        told = CHUNK_LINE.fullmatch(line)
        if told is None:
            raise ValueError("an answer with a chunk without a size")
        size = int(told[1], 16)
        self._count(size + len(LINE_END))
        if size:
            self._size = size
        else:
            self._is_behind_the_last = True

    def _take_chunk(self, received: bytearray, size: int) -> bool:
        end = received[size : size + len(LINE_END)]
        if not LINE_END.startswith(end):
            raise ValueError("an answer with a chunk of another size than it says")
        if len(end) < len(LINE_END):
            return False
        self._body += received[:size]
        del received[: size + len(LINE_END)]
        self._size = None
        return True

    def _count(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise ValueError("an answer that is longer than any")


def _take_line(received: bytearray) -> bytearray | None:
    return _take_until(LINE_END, received, LINE_BYTES)


def _take_head(received: bytearray) -> Head | None:
    """The first that is not of an interim answer: those have no body."""
    head = None
    while head is None:
        said = _take_until(HEAD_END, received, HEAD_BYTES)
        if said is None:
            return None
        head = _read_head(said.decode("latin-1"))
    return head


def _take_until(mark: bytes, received: bytearray, most: int) -> bytearray | None:
    end = received.find(mark)
    # The same verdict however it comes: the mark's beginning may be here already.
    if end > most or (end < 0 and len(received) >= most + len(mark)):
        raise ValueError("an answer with a line or a head that is longer than any")
    if end < 0:
        return None
    taken = received[:end]
    del received[: end + len(mark)]
    return taken


def _read_head(head: str) -> Head | None:
    """None for an interim answer."""
    line, *lines = head.split("\r\n")
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("an answer that is not HTTP/1")
    status = int(rest[:3])
    if status < 100 or status == SWITCHING_PROTOCOLS:
        raise ValueError("an answer with a status that was not asked for")
    if status < 200:
        return None
    headers = {name.lower(): value.strip() for name, _, value in [each.partition(":") for each in lines]}
    if len(headers) < len(lines):
        _refuse_two_ends(lines)
    length, encoding = headers.get("content-length", ""), headers.get("transfer-encoding")
    connection = headers.get("connection", "").lower()
    is_last = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    if status in BODILESS:
        # What it announces nevertheless may come, after the next request even.
        return status, headers, 0, is_last or encoding is not None or length not in ("", "0")
    if encoding is not None:
        if encoding.lower() != "chunked":
            raise ValueError("an answer in an encoding that was not asked for")
        # Whoever passed it on may have gone by the length, or may be too old to know chunks.
        return status, headers, None, is_last or "content-length" in headers or version != "HTTP/1.1"
    if not length.isdecimal():
        raise ValueError("an answer without a length")
    if int(length) > MOST_BYTES:
        raise ValueError("an answer that is longer than any")
    return status, headers, int(length), is_last


def _refuse_two_ends(lines: list[str]) -> None:
    for header in ("content-length", "transfer-encoding"):
        if (
            len({value.strip() for name, _, value in (each.partition(":") for each in lines) if name.lower() == header})
            > 1
        ):
            raise ValueError(f"an answer with more than one {header}")
