"""Watches what Redis really executes on session locks (MONITOR), commands inside Lua scripts included.

A lock that is deleted by another than its owner leaves no other trace: the next owner just works next to the
first, and the fence hides it.
"""

import asyncio
import re
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.supervisor import pause
from tests.proof.checker.evidence import RedisCommand

LINE = re.compile(rb"\+(\d+\.\d+) \[\d+ ([^\]]+)\] (.*)")
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
LIMIT = 2**20


async def watch(url: str, prefix: str, journal: Journal, stopping: asyncio.Event) -> None:
    """Writes the commands that touch a run's locks, until `stopping`. Where it loses sight, it says so."""
    while not stopping.is_set():
        with suppress(OSError, asyncio.IncompleteReadError):
            await _watch_once(urlsplit(url), prefix.encode(), journal, stopping)
        journal.write(RedisCommand(at=now(), source="gap", words=[]))
        await pause(0.1, stopping)


async def _watch_once(server: SplitResult, prefix: bytes, journal: Journal, stopping: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection(server.hostname, server.port, limit=LIMIT)
    stopper = asyncio.create_task(_close_when(stopping, writer))
    try:
        if server.password:
            writer.write(f"AUTH {server.password}\r\n".encode())
            await reader.readline()
        writer.write(b"MONITOR\r\n")
        await reader.readline()
        while line := await reader.readline():
            if prefix + b"lock:" in line or b"FLUSH" in line:
                _write(line, journal)
    finally:
        stopper.cancel()
        writer.close()


async def _close_when(stopping: asyncio.Event, writer: asyncio.StreamWriter) -> None:
    await stopping.wait()
    writer.close()


def _write(line: bytes, journal: Journal) -> None:
    found = LINE.match(line)
    if found is None:
        return
    at, source, rest = found.groups()
    words = [word.decode("utf-8", "replace") for word in WORD.findall(rest)]
    if words and words[0].upper() == "EVAL":
        words[1] = ""
    who = "lua" if source.endswith(b"lua") else source.decode("ascii", "replace")
    journal.write(RedisCommand(at=float(at), source=who, words=words))
