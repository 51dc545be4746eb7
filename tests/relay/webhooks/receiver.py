"""A receiver of webhooks: a TLS server of the test's own, with the answers of the test. It keeps what it got."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path

HOST = "hooks.example.com"
SLOW_HOST = "slow.example.com"
"""The same certificate is good for it, and for whatever is below it."""


@dataclass
class Got:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`answers` are raw; the last is for all that come after. None: it never answers. Without `hangs_up` it reads no goodbye."""

    tls: ssl.SSLContext
    answers: list[bytes | None] = field(default_factory=lambda: [b"HTTP/1.1 204 No Content\r\n\r\n"])
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    hangs_up: bool = True
    port: int = 0
    _server: asyncio.Server | None = None
    _closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._closed.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.got.append(Got(head[0], headers, body))
            answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
            if answer is None:
                await self._closed.wait()
            else:
                writer.write(answer)
                await writer.drain()
                if not self.hangs_up:
                    writer.transport.pause_reading()
                    await self._closed.wait()
        except (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()


def server_context(certificate: Path) -> ssl.SSLContext:
    """TLS with this certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
