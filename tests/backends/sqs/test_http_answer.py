"""Answers of HTTP/1.1, in whatever pieces they come."""

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise

import pytest

from turnstile.backends.sqs.http_answer import HEAD_BYTES, LINE_BYTES, MOST_BYTES, AnswerReader, HttpAnswer

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Length: 5\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

# What is said, the status, the body, and whether the connection ends with it.
WHOLE: dict[str, tuple[bytes, int, bytes, bool]] = {
    "a length": (LENGTH + b"hello", 200, b"hello", False),
    "no bytes": (OK + b"Content-Length: 0\r\n\r\n", 200, b"", False),
    "a line end in the body": (OK + b"Content-Length: 8\r\n\r\n\r\n\r\n\r\n\r\n", 200, b"\r\n" * 4, False),
    "the last": (OK + b"Connection: Close\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}", True),
    "the last, among other words": (OK + b"Connection: x, close\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}", True),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 200, b"hello", False),
    "no chunk": (CHUNKED + b"0\r\n\r\n", 200, b"", False),
    "CHUNKED": (OK + b"transfer-encoding:CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, b"a", False),
    "sixteen in a chunk": (CHUNKED + b"0010\r\n0123456789abcdef\r\n0\r\n\r\n", 200, b"0123456789abcdef", False),
    "hexadecimal": (
        CHUNKED + b"a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
        200,
        b"01234567890123456789a",
        False,
    ),
    "line ends in a chunk": (CHUNKED + b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", 200, b"\r\n0\r\n\r\n", False),
    "extensions": (CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0 ; last\r\n\r\n', 200, b"hello", False),
    "blanks behind the size": (CHUNKED + b"5 \t\r\nhello\r\n0  \r\n\r\n", 200, b"hello", False),
    "trailers": (CHUNKED + b"1\r\na\r\n0\r\nETag: x\r\nContent-Length: 9\r\nz:\r\n\r\n", 200, b"a", False),
    "chunks, the last": (OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, b"", True),
    "chunks and a length": (
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        200,
        b"{}",
        True,
    ),
    "chunks and no length": (OK + b"Transfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n", 200, b"", True),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}", True),
    "HTTP/1.0, kept alive": (
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}",
        200,
        b"{}",
        False,
    ),
    "chunks of HTTP/1.0": (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, b"", True),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", False),
    "204 of length 0": (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, b"", False),
    "304": (b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", 304, b"", False),
    # What they announce may come all the same.
    "304 that has a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b"", True),
    "204 that has chunks": (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 204, b"", True),
    "after an interim one": (CONTINUE + LENGTH + b"hello", 200, b"hello", False),
    "after two": (CONTINUE + b"HTTP/1.1 103 \r\nContent-Length: 7\r\n\r\n" + CHUNKED + b"0\r\n\r\n", 200, b"", False),
    "the same length twice": (OK + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", 200, b"{}", False),
    "a name twice": (OK + b"Via: a\r\nContent-Length: 2\r\nVia: b\r\n\r\n{}", 200, b"{}", False),
}

NONE: dict[str, bytes] = {
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "a status that is a word": b"HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n",
    "a status that is too small": b"HTTP/1.1 2_0\r\nContent-Length: 0\r\n\r\n",
    "another protocol from here on": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "neither length nor chunks": OK + b"\r\n{}",
    "neither, after an interim one": CONTINUE + OK + b"\r\n{}",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n{}",
    "a length beyond all numbers": OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
    "too long": OK + b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1),
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "compressed": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "compressed, and says so apart": OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "as it is, although of a length": OK + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
    "no encoding": OK + b"Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}",
    "a head without an end": OK + b"X: " + b"x" * HEAD_BYTES,
    "a head that is too long": OK + b"X: " + b"x" * HEAD_BYTES + b"\r\nContent-Length: 0\r\n\r\n",
    "a size that is none": CHUNKED + b"xyz\r\n",
    "an empty size": CHUNKED + b"\r\n",
    "only an extension": CHUNKED + b";a=b\r\n",
    "a negative size": CHUNKED + b"-1\r\n",
    "a signed size": CHUNKED + b"+1\r\na\r\n0\r\n\r\n",
    "a size of Python's": CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    "a size in groups": CHUNKED + b"1_0\r\n",
    "blanks before the size": CHUNKED + b" 1\r\na\r\n0\r\n\r\n",
    "two sizes": CHUNKED + b"1 1\r\na\r\n0\r\n\r\n",
    "half a line end": CHUNKED + b"1\na\n0\n\n\r\n",
    "half a line end in an extension": CHUNKED + b"1;\na\r\n0\r\n\r\n",
    "a size without an end": CHUNKED + b"1;" + b"x" * LINE_BYTES + b"xx",
    "a line that is too long": CHUNKED + b"1;" + b"x" * LINE_BYTES + b"\r\na\r\n0\r\n\r\n",
    "a chunk that is too long": CHUNKED + b"%x\r\n" % (MOST_BYTES + 1),
    "a chunk beyond all numbers": CHUNKED + b"f" * 5000 + b"\r\n",
    "chunks that are too long together": CHUNKED + b"5\r\nhello\r\n%x\r\n" % (MOST_BYTES - 5),
    "a chunk that is longer than its size": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "a chunk without a line end": CHUNKED + b"1\r\na0\r\n\r\n",
    "no end before the next answer": CHUNKED + b"1\r\na\r\n0\r\n" + LENGTH + b"hello",
    "a trailer that is none": CHUNKED + b"0\r\nnone\r\n\r\n",
    "a trailer that goes on": CHUNKED + b"0\r\na: b\r\n c\r\n\r\n",
}


def cuts(said: bytes) -> Iterator[list[bytes]]:
    """In one piece, in bytes, and in two and three pieces wherever they may be cut."""
    yield [said]
    if len(said) > 1000:
        # Long only because it is too long: where it is cut matters at its ends.
        places = [*range(1, 60), *range(len(said) - 60, len(said))]
        yield from (in_pieces(said, [place]) for place in places)
        return
    yield [bytes([byte]) for byte in said]
    for count in (1, 2):
        yield from (in_pieces(said, places) for places in combinations(range(1, len(said)), count))


def in_pieces(said: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut there."""
    return [said[start:end] for start, end in pairwise([0, *places, len(said)])]


def read(reader: AnswerReader, pieces: list[bytes]) -> HttpAnswer | None:
    """The answer, which comes with the last piece or not at all."""
    *before, last = pieces
    for piece in before:
        assert reader.feed(piece) is None
    return reader.feed(last)


def read_none(pieces: list[bytes]) -> None:
    """No answer is among them."""
    reader = AnswerReader()
    for piece in pieces:
        assert reader.feed(piece) is None, pieces


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_is_whole_with_its_last_byte_and_not_before(name: str) -> None:
    said, status, body, is_last = WHOLE[name]
    for pieces in cuts(said):
        reader = AnswerReader()
        # The second time as the next answer of the same connection.
        for _ in range(2):
            answer = read(reader, pieces)

            assert answer is not None, pieces
            assert (answer.status, answer.body, answer.is_last) == (status, body, is_last), pieces


@pytest.mark.parametrize("name", NONE)
def test_what_makes_no_sense_is_refused_however_it_comes(name: str) -> None:
    for pieces in cuts(NONE[name]):
        with pytest.raises(ValueError):  # noqa: PT011 - whichever
            read_none(pieces)


@pytest.mark.parametrize("name", WHOLE)
def test_after_an_answer_with_bytes_beyond_it_nothing_more_is_believed(name: str) -> None:
    said, status, body, _ = WHOLE[name]
    for beyond in (b"\r", b"\r\n", CONTINUE, LENGTH + b"stale"):
        for pieces in ([said + beyond], [said[:-1], said[-1:] + beyond]):
            reader = AnswerReader()
            answer = read(reader, pieces)

            assert answer is not None
            assert (answer.status, answer.body, answer.is_last) == (status, body, True), pieces


def test_headers_are_found_by_their_names_in_lower_case() -> None:
    answer = AnswerReader().feed(OK + b"X-Amzn-Query-Error:  A;Sender \r\nContent-Length: 0\r\n\r\n")

    assert answer is not None
    assert answer.headers == {"x-amzn-query-error": "A;Sender", "content-length": "0"}


def test_headers_of_an_interim_answer_and_trailers_are_not_the_answers() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nX: early\r\nConnection: close\r\n\r\n"
    answer = AnswerReader().feed(interim + CHUNKED + b"0\r\nX: late\r\nConnection: close\r\n\r\n")

    assert answer is not None
    assert answer.headers == {"transfer-encoding": "chunked"}
    assert not answer.is_last


@pytest.mark.parametrize(
    "said",
    [OK + b"Content-Length: %d\r\n\r\n" % MOST_BYTES, CHUNKED + b"%x\r\n" % (MOST_BYTES - 100)],
    ids=["length", "chunk"],
)
def test_an_answer_may_be_as_long_as_ten_messages_are_at_most(said: bytes) -> None:
    assert AnswerReader().feed(said) is None


@pytest.mark.parametrize(
    ("start", "more"),
    [(CHUNKED, b"1\r\na\r\n"), (CHUNKED + b"0\r\n", b"X: y\r\n"), (CHUNKED, b"1;" + b"x" * 1000 + b"\r\na\r\n")],
    ids=["chunks", "trailers", "extensions"],
)
def test_what_goes_on_and_on_is_bounded_in_all(start: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.backends.sqs.http_answer.MOST_BYTES", 10_000)

    with pytest.raises(ValueError, match="longer"):
        read_none([start, *[more] * (10_000 // len(more) + 1)])
