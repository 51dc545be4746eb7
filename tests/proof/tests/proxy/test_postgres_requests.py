"""The reading of a client's half of the Postgres protocol, which must not depend on how the bytes were cut."""

import struct
from random import Random

import pytest

from tests.proof.proxy.postgres import Requests, writes


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


SSL_REQUEST = struct.pack("!II", 8, 80877103)
STARTUP = struct.pack("!II", 8 + 10, 196608) + b"user\0me\0\0\0"
STREAM = b"".join(
    [
        message(b"p", b"secret\0"),
        message(b"P", b"s1\0INSERT INTO x VALUES ($1)\0\0\0"),
        message(b"B", b"\0s1\0" + b"\0" * 6),
        message(b"D", b"P\0"),
        message(b"E", b"\0\0\0\0\0"),
        message(b"d", b"P" * 5000),
        message(b"H", b""),
        message(b"S", b""),
        message(b"Q", b"COMMIT\0"),
        message(b"X", b""),
    ]
)
FOUND = [b"P", b"B", b"E", b"S", b"Q"]


def read(chunks: list[bytes]) -> list[bytes]:
    requests = Requests()
    return [bytes([kind]) for chunk in chunks for kind, _ in requests.feed(chunk)]


@pytest.mark.parametrize("start", [STARTUP, SSL_REQUEST + STARTUP], ids=["plain", "after asking for encryption"])
def test_the_messages_are_found_wherever_the_stream_was_cut(start: bytes) -> None:
    whole = start + STREAM

    assert read([whole[place : place + 1] for place in range(len(whole))]) == FOUND
    for seed in range(100):
        cuts = sorted(Random(seed).choices(range(len(whole)), k=12))
        chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert read(chunks) == FOUND, seed


def test_nothing_is_read_into_a_cancel_request() -> None:
    assert read([struct.pack("!IIII", 16, 80877102, 1, 2), b"Q" * 100]) == []


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT 1", False),
        ("select * from turns where id = 1 for update skip locked", False),
        ("SELECT 1 FROM turns FOR NO KEY UPDATE", False),
        ("WITH x AS (UPDATE turns SET a = 1 RETURNING *) SELECT * FROM x", True),
        ("insert into turns values (1)", True),
        ("COMMIT", True),
        ("BEGIN", False),
    ],
)
def test_what_a_statement_does_is_told_by_its_text(sql: str, answer: bool) -> None:
    assert writes(sql) is answer
