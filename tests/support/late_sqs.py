"""An SQS that responds only when the test allows it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class LateSqs:
    """Responds to no call before `may_answer` is set."""

    address: str = ""
    extended: list[list[str]] = field(default_factory=list)
    """The receipt handles of each call that has come."""
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                entries = json.loads(await reader.readexactly(length))["Entries"]
                self.extended.append([entry["ReceiptHandle"] for entry in entries])
                await self.may_answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()


@asynccontextmanager
async def late() -> AsyncIterator[LateSqs]:
    sqs = LateSqs()
    server = await asyncio.start_server(sqs.serve, "127.0.0.1", 0)
    sqs.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield sqs
    finally:
        sqs.may_answer.set()
        server.close()
