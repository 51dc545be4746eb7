"""Limits for the head of a request, checked before it is parsed: a client without a key must not occupy the event loop.

Parsing costs time for each header and each parameter, and all clients share one event loop. The checks here are a few searches in
bytes. They also refuse what a proxy in front may read in another way, so that both could disagree where a request ends.
"""

import re

import h11

from turnstile.producer.http.problems import Kind, ProblemError

MAX_REQUEST_LINE_BYTES = 2048
"""Method, path and query. The longest that a client needs has less than a thousand."""
MAX_HEADERS = 100
MAX_HEAD_BYTES = 16_384

_END = re.compile(rb"\n\r?\n")


def find_fault(received: bytes) -> ProblemError | None:
    """Why the head with which `received` begins is refused, if it is. A head that has not arrived as a whole is judged so far."""
    end = _END.search(received, 0, MAX_HEAD_BYTES)
    head = received[: end.start() + 1] if end else received
    line = head.find(b"\n")
    if (len(head) if line < 0 else line) > MAX_REQUEST_LINE_BYTES:
        return ProblemError(Kind.URI_TOO_LONG, f"method, path and query have {MAX_REQUEST_LINE_BYTES} bytes at most")
    if head.count(b"\n") > MAX_HEADERS + 1:
        return ProblemError(Kind.HEADERS_TOO_LARGE, f"send {MAX_HEADERS} headers at most")
    if len(head) > MAX_HEAD_BYTES:
        return ProblemError(Kind.HEADERS_TOO_LARGE, f"the headers have {MAX_HEAD_BYTES} bytes at most")
    if head.count(b"\n") != head.count(b"\r\n") or b"\n " in head or b"\n\t" in head:
        return ProblemError(Kind.BAD_REQUEST, "each header is one line that ends with CR and LF")
    lengths = head.lower().split(b"\ncontent-length:")[1:]
    if lengths and (b"\ntransfer-encoding:" in head.lower() or b"," in lengths[0].partition(b"\n")[0]):
        return ProblemError(Kind.BAD_REQUEST, "send one Content-Length, or Transfer-Encoding, not both")
    return None


class HeadParser(h11.Connection):
    """The parser of a connection, for a server. Raises RemoteProtocolError for a head with a `fault`, before it parses it."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self.fault: ProblemError | None = None

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        # Here, and not where bytes arrive: a second request that came with the first is parsed after the first is answered.
        if self.their_state is h11.IDLE:
            self.fault = find_fault(self.trailing_data[0])
            if self.fault is not None:
                raise h11.RemoteProtocolError(self.fault.detail)
        return super().next_event()
