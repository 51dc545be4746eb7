"""Poolers that can't stand between Turnstile and Postgres."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def refusing_pooler(parameter: str) -> AsyncIterator[str]:
    """One that refuses what it does not know, in the words of PgBouncer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        [length] = struct.unpack("!I", await reader.readexactly(4))
        await reader.readexactly(length - 4)
        fields = b"SFATAL\0C08P01\0M" + f"unsupported startup parameter{parameter}".encode() + b"\0\0"
        writer.write(b"E" + struct.pack("!I", len(fields) + 4) + fields)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable"
