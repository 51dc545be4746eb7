"""A gate: one listening port in front of one upstream, with its toxics, its connections and its counts."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.proof.proxy.toxics import Toxic

if TYPE_CHECKING:
    from tests.proof.proxy.connection import ClientSide

LOOPBACK = "127.0.0.1"
BACKLOG = 512
OF_BYTES = frozenset({"latency", "stall", "drip", "half_open"})
"""The toxics that a lane looks for."""


class Gate:
    """Accepts on `port` and hands each connection to `connect`."""

    def __init__(
        self,
        service: str,
        name: str,
        upstream: tuple[str, int],
        connect: Callable[["Gate"], asyncio.Protocol],
        chance: Random,
    ) -> None:
        self.service = service
        self.name = name
        self.upstream = upstream
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.connections: set[ClientSide] = set()
        self.disturbed = False
        """A toxic is set that bytes must be asked about: the one test of the fast path."""
        self._connect = connect
        self._toxics: dict[str, Toxic] = {}
        # One change at a time, or a heal that is about to listen would not see the cut that comes meanwhile.
        self._changing = asyncio.Lock()
        self._server: asyncio.Server | None = None
        # Bound and never listening: keeps the port ours while connections are refused.
        self._place = _bound(0)
        self.port: int = self._place.getsockname()[1]

    async def open(self) -> None:
        await self._listen()

    def close(self) -> None:
        self._break_off(reset=False)
        self._refuse()
        self._place.close()

    def find(self, name: str) -> Any:
        return self._toxics.get(name)

    def strike(self, name: str, action: str | None = None) -> Any:
        """The toxic of this name if it is set and hits this request (an SQS call of `action`); counts it."""
        toxic: Any = self._toxics.get(name)
        if toxic is None or (action is not None and action not in toxic.actions) or not toxic.strikes(self.chance):
            return None
        self.count(name)
        return toxic

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def admit(self, connection: "ClientSide") -> bool:
        """Registers a new connection; False if it is to be reset at once."""
        self.connections.add(connection)
        self.count("connections")
        if self.find("reset"):
            self.count("reset")
            return False
        return True

    async def set(self, name: str, toxic: Toxic) -> None:
        """Sets a toxic until it is healed; one of the same name is replaced."""
        async with self._changing:
            self._toxics[name] = toxic
            match name:
                case "cut":
                    # Refused connections can't be counted: the kernel refuses them.
                    self.counts[name] += len(self.connections)
                    self._refuse()
                    self._break_off(reset=False)
                case "reset":
                    self.counts[name] += len(self.connections)
                    self._break_off(reset=True)
                case _:
                    self._changed()

    async def heal(self, name: str | None = None) -> None:
        async with self._changing:
            for each in [name] if name else list(self._toxics):
                self._toxics.pop(each, None)
            if self._server is None and not self.find("cut"):
                await self._listen()
            self._changed()

    def _changed(self) -> None:
        self.disturbed = not OF_BYTES.isdisjoint(self._toxics)
        for connection in list(self.connections):
            if connection.is_broken() and not self.find("half_open"):
                connection.break_off(reset=True)
            else:
                connection.toxics_changed()

    def _break_off(self, *, reset: bool) -> None:
        for connection in list(self.connections):
            connection.break_off(reset=reset)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._connect(self), sock=_bound(self.port), backlog=BACKLOG)

    def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((LOOPBACK, port))
    made.setblocking(False)
    return made
