"""How a harness starts the proxy and steers it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.proof.proxy.gate import LOOPBACK
from tests.proof.proxy.server import ALL, Address

ROOT = Path(__file__).parents[3]
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class ProxyError(Exception):
    """The proxy refused what it was asked, or is gone."""


class ProxyControl:
    """A client of one proxy process. Safe for concurrent use in one event loop."""

    def __init__(self, control: int, process: asyncio.subprocess.Process | None = None) -> None:
        self._control = control
        self._process = process
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def start(
        cls, upstreams: Mapping[str, Address], folder: Path, *, seed: int = 0
    ) -> AsyncIterator["ProxyControl"]:
        """A proxy process for as long as the block; `wire.jsonl` in `folder` is complete after it.

        `upstreams`: host and port by service, of `postgres`, `redis` and `sqs` those that are wanted. `folder` is absolute.
        """
        given = [f"--{service}={host}:{port}" for service, (host, port) in upstreams.items()]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.proof.proxy", "--control=0", f"--folder={folder}", f"--seed={seed}", *given),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A Ctrl-C is the harness's to act on: it still has to ask the proxy for its counts.
            start_new_session=True,
        )
        control: ProxyControl | None = None
        try:
            control = cls(await _read_port(process), process)
            yield control
        finally:
            if control is not None:
                control.close()
            await _end(process)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()

    async def open(self, service: str, name: str) -> int:
        """Opens a gate: a listening port for a group of clients. Returns its port on loopback."""
        answer = await self._ask(do="open", service=service, name=name)
        return int(answer["port"])

    async def set(self, service: str, name: str, toxic: str, **parameters: Any) -> None:
        """Sets a toxic on a gate, or on `all` gates of the service that are open, until it is healed.

        The toxics of each service and their parameters stand in `tests.proof.proxy.toxics`. Setting one again replaces
        it. Raises ProxyError for one that there is not.
        """
        await self._ask(do="set", service=service, name=name, toxic=toxic, parameters=parameters)

    async def heal(self, service: str | None = None, name: str | None = None, toxic: str | None = None) -> None:
        await self._ask(do="heal", service=service, name=name, toxic=toxic)

    async def counts(self) -> dict[str, dict[str, int]]:
        """By `service/name`: `connections` so far, `open` now, `requests`, and how often each toxic hit."""
        return await self._ask(do="counts")

    async def hits(self, service: str, toxic: str, name: str = ALL) -> int:
        """How often a toxic hit, at one gate or at all of the service."""
        counts = await self.counts()
        wanted = [
            gate for gate in counts if gate.partition("/")[0] == service and name in (ALL, gate.partition("/")[2])
        ]
        return sum(counts[gate].get(toxic, 0) for gate in wanted)

    async def _ask(self, **asked: Any) -> dict[str, Any]:
        async with self._turn:
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_connection(LOOPBACK, self._control)
                reader, writer = self._streams
                writer.write(json.dumps(asked).encode() + b"\n")
                line = await reader.readline()
            except OSError as error:
                raise ProxyError(f"the proxy is gone: {error}") from error
        if not line:
            raise ProxyError("the proxy is gone")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProxyError(answer["error"])
        return answer


async def _read_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
    if not line:
        raise ProxyError("the proxy did not start")
    return int(line)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
