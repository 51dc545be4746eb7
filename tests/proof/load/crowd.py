"""A crowd of clients that call one API, in a process of its own: they poll, they follow turns, and they never end their requests.

python -m tests.proof.load.crowd URL SECONDS FILE TURN...     calls about these turns for so long, and writes what was answered

Each client begins again as soon as it is answered, refused or cut off, as a careless one would.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tests.proof.chaos.scaled_settings import TENANTS
from tests.proof.chaos.supervisor import pause
from tests.proof.load.abuse import FLOODER

POLLERS = 2000
READERS = 1000
SLOW = 300
"""Clients that send half a request, a byte at a time."""
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
Counts = Counter[str]


async def call(url: str, turns: Sequence[str], seconds: float, many: Sequence[int]) -> Counts:
    """What the clients met in that time: a count for each kind of client and status, `cut` for a connection that broke."""
    pollers, readers, slow = many
    counts: Counts = Counter()
    headers = {"Authorization": f"Bearer {TENANTS[FLOODER]}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout, connector=connector) as http:

        def poll(number: int) -> Awaitable[str]:
            return _get(http, f"/v1/turns/{turns[number % len(turns)]}")

        def follow(number: int) -> Awaitable[str]:
            return _get(http, f"/v1/turns/{turns[number % len(turns)]}/events")

        def dawdle(_: int) -> Awaitable[str]:
            return _dawdle(url)

        clients = [
            asyncio.create_task(_repeat(kind, client, number, counts))
            for kind, client, of_kind in (("poll", poll, pollers), ("follow", follow, readers), ("slow", dawdle, slow))
            for number in range(of_kind)
        ]
        await asyncio.wait(clients, timeout=seconds)
        for one in clients:
            one.cancel()
        await asyncio.wait(clients)
    return counts


async def _repeat(kind: str, client: Callable[[int], Awaitable[str]], number: int, counts: Counts) -> None:
    while True:
        try:
            answer = await client(number)
        except (aiohttp.ClientError, TimeoutError, OSError):
            answer = "cut"
        counts[f"{kind} {answer}"] += 1
        # Not in a tight loop, or the crowd would take the CPU that it means to take from others.
        await pause(POLL_SECONDS if kind == "poll" else 0.1 if answer == "cut" else 0.0)


async def _get(http: aiohttp.ClientSession, path: str) -> str:
    async with http.get(path) as response:
        async for _ in response.content.iter_any():
            pass
    return str(response.status)


async def _dawdle(url: str) -> str:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(b"POST /v1/sessions/slow/turns HTTP/1.1\r\nHost: api\r\nX-Slow: ")
        reading = asyncio.create_task(reader.read(64))
        while not reading.done():
            writer.write(b"x")
            await asyncio.wait({reading}, timeout=1.0)
        answer = reading.result().split()
        return answer[1].decode() if len(answer) > 1 else "cut"
    finally:
        writer.transport.abort()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.load.crowd", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    parser.add_argument("file", type=Path)
    parser.add_argument("turns", nargs="+")
    parser.add_argument("--pollers", type=int, default=POLLERS)
    parser.add_argument("--readers", type=int, default=READERS)
    parser.add_argument("--slow", type=int, default=SLOW)
    asked = parser.parse_args(arguments)
    counts = asyncio.run(call(asked.url, asked.turns, asked.seconds, (asked.pollers, asked.readers, asked.slow)))
    asked.file.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
