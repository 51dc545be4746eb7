"""A Postgres that states another version than it has: the only way to meet one that no package of this machine brings."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_STATED = re.compile(rb"server_version\0\d\d")


@asynccontextmanager
async def stating(url: str, major: int) -> AsyncIterator[str]:
    """A URL of the same database, through a proxy that changes the major version in the server's greeting."""
    parts = urlsplit(url)

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                # The new text has the same length, because the message's length comes before it.
                sink.write(_STATED.sub(b"server_version\0%d" % major, data))
        except OSError:
            pass
        finally:
            sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(carry(reader, server_writer), carry(server_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        user = parts.netloc.rpartition("@")[0]
        yield parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
