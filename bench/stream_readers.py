"""Readers of event streams that are cheap enough not to be what is measured: they look for the times that the handler said."""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnstile.dev.stack.ports import LOOPBACK

_SAID_AT = re.compile(rb"\b\d{19}\b")
"""Nanoseconds of the wall clock: no other number of a stream has as many digits, an id's has 16 at most."""
_MOST_SPLIT = 19
"""Bytes that a reader keeps, because the rest of a number may come with the next read."""
PIECE = 65_536


@dataclass(slots=True)
class Heard:
    """What readers have heard, in milliseconds."""

    words: list[float] = field(default_factory=list)
    """From `ctx.emit` to the reader, of each word."""
    first_bytes: list[float] = field(default_factory=list)
    """From the POST to the first byte of the stream."""
    first_words: list[float] = field(default_factory=list)
    """From the POST to the first word."""
    refused: list[str] = field(default_factory=list)


def read_streams(port: int, wire: str, streams: int, seconds: float) -> Heard:
    """Submits and follows so many turns at the same time, each in a session of its own, to their end, or for so many seconds."""
    return asyncio.run(_read_streams(port, wire, streams, seconds))


async def _read_streams(port: int, wire: str, streams: int, seconds: float) -> Heard:
    heard = Heard()
    reading = [_follow(port, wire, f"session-{number}", heard) for number in range(streams)]
    async with asyncio.timeout(seconds):
        await asyncio.gather(*reading)
    return heard


async def _follow(port: int, wire: str, session: str, heard: Heard) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    body = json.dumps({"input": "speak"}).encode()
    head = f"Host: {LOOPBACK}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    asked_at = time.time()
    writer.write(f"POST /v1/sessions/{session}/chat?as={wire} HTTP/1.1\r\n{head}\r\n".encode() + body)
    answered = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in answered.split(b"\r\n", 1)[0]:
        heard.refused.append(answered.split(b"\r\n", 1)[0].decode())
        writer.close()
        return
    last, rest, has_heard = 0, b"", False
    while piece := await reader.read(PIECE):
        now = time.time()
        if not has_heard:
            has_heard = True
            heard.first_bytes.append(1000 * (now - asked_at))
        rest += piece
        for said_at in _read_times(rest):
            # The end repeats the whole text, and so does a reset.
            if said_at > last:
                if not last:
                    heard.first_words.append(1000 * (now - asked_at))
                last = said_at
                heard.words.append(1000 * now - said_at / 1e6)
        rest = rest[-_MOST_SPLIT:]
    writer.close()


def _read_times(text: bytes) -> Sequence[int]:
    return [int(found) for found in _SAID_AT.findall(text)]
