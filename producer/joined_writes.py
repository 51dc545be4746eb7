"""Head and body of an answer in one write to the socket: uvicorn writes them one after the other, and each is a system call."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol


class JoinedWrites(H11Protocol):
    """uvicorn's protocol, on a transport that waits a moment with what it is given first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _Joining(transport)))


class _Joining:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._call_soon = asyncio.get_running_loop().call_soon
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
            self._held = b""
            self._transport.write(data)
        elif data:
            # Once the step of the loop is over nothing more comes with it.
            self._held = bytes(data)
            self._call_soon(self._flush)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            self._transport.write(self._held)
            self._held = b""
