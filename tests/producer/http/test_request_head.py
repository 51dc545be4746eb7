"""Which heads are refused, before they are parsed."""

import pytest

from turnstile.producer.http.problems import Kind
from turnstile.producer.http.request_head import MAX_HEAD_BYTES, MAX_HEADERS, MAX_REQUEST_LINE_BYTES, find_fault

LINE = b"GET /v1/turns HTTP/1.1\r\n"


def line_of(length: int) -> bytes:
    """A request line, without its end."""
    return b"GET /" + b"a" * (length - 15) + b" HTTP/1.1\r"


def headers(count: int) -> bytes:
    return b"".join(b"h%x:\r\n" % number for number in range(count))


def kind_of(received: bytes) -> Kind | None:
    fault = find_fault(received)
    return fault.kind if fault else None


@pytest.mark.parametrize(
    "received",
    [
        b"",
        LINE[:7],
        LINE,
        line_of(MAX_REQUEST_LINE_BYTES) + b"\n\r\n",
        LINE + headers(MAX_HEADERS) + b"\r\n",
        LINE + b"H: " + b"x" * (MAX_HEAD_BYTES - len(LINE) - 8) + b"\r\n\r\n",
        LINE + b"Content-Length: 5\r\n\r\n" + b"\n" * 500,
        LINE + b"Content-Length: 13\r\n\r\nA: 1, 2\nB\n c" + b"x" * MAX_HEAD_BYTES,
        LINE + b"Transfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["nothing", "a piece", "a line", "long", "most headers", "large", "lines", "a body", "chunked"],
)
def test_a_head_within_the_limits_has_no_fault_whatever_its_body_is(received: bytes) -> None:
    assert find_fault(received) is None


@pytest.mark.parametrize(
    ("received", "kind"),
    [
        (line_of(MAX_REQUEST_LINE_BYTES + 1) + b"\n\r\n", Kind.URI_TOO_LONG),
        (b"GET /?" + b"a&" * 2000, Kind.URI_TOO_LONG),
        (LINE + headers(MAX_HEADERS + 1) + b"\r\n", Kind.HEADERS_TOO_LARGE),
        (LINE + headers(MAX_HEADERS + 1), Kind.HEADERS_TOO_LARGE),
        (LINE + b"H: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", Kind.HEADERS_TOO_LARGE),
        (LINE + b"H: " + b"x" * MAX_HEAD_BYTES, Kind.HEADERS_TOO_LARGE),
        (LINE + b"Host: x\nOther: y\r\n\r\n", Kind.BAD_REQUEST),
        (LINE + b"Host: x\n\n", Kind.BAD_REQUEST),
        (LINE + b"Content-Length: 13\r\n , 13\r\n\r\n", Kind.BAD_REQUEST),
        (LINE + b"Content-Length: 13, 13\r\n\r\n", Kind.BAD_REQUEST),
        (LINE + b"Content-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n", Kind.BAD_REQUEST),
        (LINE + b"TRANSFER-ENCODING: chunked\r\nCONTENT-LENGTH: 13\r\n\r\n", Kind.BAD_REQUEST),
    ],
    ids=[
        "a long line", "a long line that goes on", "many headers", "many headers that go on", "large headers", "that go on",
        "a bare line feed", "two of them", "a folded line", "two lengths", "a length and chunks", "chunks and a length",
    ],
)  # fmt: skip
def test_a_head_is_refused_before_it_is_complete(received: bytes, kind: Kind) -> None:
    assert kind_of(received) is kind
