"""A server that answers request after request by a script, well or badly."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Act:
    """What one request is answered with: bytes, and whether the connection is closed behind them."""

    said: bytes = b""
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One that has come. `headers` by their names in lower case."""

    connection: int
    line: str
    headers: Mapping[str, str]
    body: bytes


SILENCE = Act()
"""The connection stays open, and nothing comes."""


def answer(body: bytes = b"{}", status: str = "200 OK", **headers: str) -> Act:
    return _whole(body, status, {"Content-Length": str(len(body)), **headers})


def _whole(body: bytes, status: str, headers: Mapping[str, str]) -> Act:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""])
    return Act(head.encode() + body, closes=headers.get("Connection") == "close")


@dataclass(slots=True)
class ScriptedSqs:
    """`acts` are used up one after the other; afterwards everything is answered well."""

    acts: list[Act]
    address: str = ""
    requests: list[Request] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    gone: int = 0
    """How many clients have closed their connections."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        number = len(self.writers)
        try:
            while True:
                line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                self.requests.append(Request(number, line, headers, body))
                act = self.acts.pop(0) if self.acts else answer()
                writer.write(act.said)
                if act.closes:
                    return
        except (OSError, EOFError):
            self.gone += 1
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*acts: Act) -> AsyncIterator[ScriptedSqs]:
    sqs = ScriptedSqs(list(acts))
    server = await asyncio.start_server(sqs.serve, "127.0.0.1", 0)
    sqs.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield sqs
    finally:
        server.close()
        for writer in sqs.writers:
            writer.transport.abort()
