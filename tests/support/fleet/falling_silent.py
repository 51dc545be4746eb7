"""A cluster of sockets that answer as Redis does until a test makes them silent: then they still accept, and say nothing.

As many nodes as a test likes, which real servers would be too many of. They keep no data: every script is
answered with 1.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnstile.dev.stack.ports import LOOPBACK

SLOTS = 16384


class FallingSilent:
    """`nodes` primaries, each with a replica."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self.ports: list[int] = []
        """Those of the primaries, then those of the replicas."""
        self.silent: set[int] = set()
        """Those ports that say nothing."""

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{LOOPBACK}:{port}" for port in self.ports[: self._nodes])

    async def listen(self) -> list[asyncio.Server]:
        servers = [await asyncio.start_server(self._serve, LOOPBACK, 0) for _ in range(2 * self._nodes)]
        self.ports = [server.sockets[0].getsockname()[1] for server in servers]
        return servers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        try:
            while line := await reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    length = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(length + 2))[:-2].decode())
                if port not in self.silent:
                    writer.write(self._answer(words))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, words: list[str]) -> bytes:
        match [words[0].upper(), *words[1:]]:
            case ["HELLO", *_]:
                return b"%1\r\n+proto\r\n:3\r\n"
            case ["CLUSTER", *_]:
                return self._slots()
            case ["COMMAND", *_]:
                return b"*0\r\n"
            case ["EVAL", *_]:
                return b":1\r\n"
            case _:
                return b"+OK\r\n"

    def _slots(self) -> bytes:
        ends = [SLOTS * place // self._nodes for place in range(self._nodes + 1)]
        answer = f"*{self._nodes}\r\n"
        for place in range(self._nodes):
            answer += f"*4\r\n:{ends[place]}\r\n:{ends[place + 1] - 1}\r\n"
            for port in (self.ports[place], self.ports[self._nodes + place]):
                answer += f"*3\r\n${len(LOOPBACK)}\r\n{LOOPBACK}\r\n:{port}\r\n+{port:040}\r\n"
        return answer.encode()


@contextmanager
def falling_silent(nodes: int) -> Iterator[FallingSilent]:
    """It answers on a thread of its own, so that a client may block."""
    cluster = FallingSilent(nodes)
    listening = threading.Event()
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        servers = await cluster.listen()
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(stopping.set))
        listening.set()
        await stopping.wait()
        for server in servers:
            server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    listening.wait()
    yield cluster
    ends[0]()
    thread.join()
