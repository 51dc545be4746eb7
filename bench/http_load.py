"""Requests to an HTTP server, by a client that is cheap enough not to be what is measured."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from turnstile.dev.stack.ports import LOOPBACK


@dataclass(slots=True)
class Load:
    milliseconds: list[float] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Accepted requests."""
        return len(self.milliseconds) / self.seconds if self.seconds else 0.0


def load(port: int, *, clients: int, seconds: float, per_second: float | None = None) -> Load:
    """As many submits as that many clients can make, or `per_second` of them, each in a session of its own.

    Paced, a request's time counts from when it was due, also if no client was free then: a wait for a client counts.
    """
    return asyncio.run(_load(port, clients, seconds, per_second))


async def _load(port: int, clients: int, seconds: float, per_second: float | None) -> Load:
    found = Load()
    numbers = itertools.count()
    begun = time.perf_counter()

    async def client() -> None:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        for number in _until(numbers, per_second, seconds):
            due = begun + number / per_second if per_second else time.perf_counter()
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() - begun > seconds:
                break
            status = await _post(reader, writer, number)
            if 200 <= status < 300:
                found.milliseconds.append(1000 * (time.perf_counter() - due))
            else:
                found.refused += 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    found.seconds = time.perf_counter() - begun
    return found


def _until(numbers: Iterator[int], per_second: float | None, seconds: float) -> Iterator[int]:
    return itertools.takewhile(lambda number: per_second is None or number < per_second * seconds, numbers)


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> int:
    """One request on a kept-alive connection: its status. The answer must have a Content-Length."""
    body = json.dumps({"input": {"number": number}}).encode()
    head = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"POST /v1/sessions/session-{number}/turns HTTP/1.1\r\n{head}\r\n".encode() + body)
    answered = await reader.readuntil(b"\r\n\r\n")
    lower = answered.lower()
    at = lower.index(b"content-length:") + len(b"content-length:")
    await reader.readexactly(int(lower[at : lower.index(b"\r\n", at)]))
    return int(answered.split(b" ", 2)[1])
