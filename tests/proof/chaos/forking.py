"""The harness's side of the fork server: asks it for processes, and receives their exit codes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Forked:
    """A process of the product, and its exit code (negative for a signal) when there is one."""

    pid: int
    exited: "asyncio.Future[int]"


class ForkServer:
    """Several runs may share one: a process gets its environment when it is forked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: asyncio.Queue[Forked | None] = asyncio.Queue()
        self._forked: dict[int, Forked] = {}
        self._asking = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["ForkServer"]:
        """A fork server for as long as the block; its children end with it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.proof.chaos.fork_server",
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        server = cls(process)
        listening = asyncio.create_task(server._listen())
        try:
            await server._answer()
            yield server
        finally:
            _pipe(process.stdin).close()
            await process.wait()
            await listening

    async def fork(self, argv: Sequence[str], environment: Mapping[str, str], logs: Path) -> Forked:
        """Starts `turnstile <argv>`; its output goes to `<argv[0]>-<pid>.log` in `logs`."""
        order = {"argv": argv, "environment": environment, "logs": str(logs), "role": argv[0]}
        async with self._asking:
            _pipe(self._process.stdin).write(json.dumps(order).encode() + b"\n")
            return await self._answer()

    async def _answer(self) -> Forked:
        answer = await self._answers.get()
        if answer is None:
            raise RuntimeError("the fork server has ended")
        return answer

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        async for line in _pipe(self._process.stdout):
            message: dict[str, Any] = json.loads(line)
            match message:
                case {"ready": pid}:
                    self._answers.put_nowait(Forked(pid, loop.create_future()))
                case {"pid": pid}:
                    # Here, and not where the answer is waited for: the end may be the very next line.
                    forked = self._forked[pid] = Forked(pid, loop.create_future())
                    self._answers.put_nowait(forked)
                case {"ended": pid, "code": code}:
                    exited = self._forked.pop(pid).exited
                    # A task that waited for it was cancelled, because the run is broken off.
                    if not exited.cancelled():
                        exited.set_result(code)
        self._answers.put_nowait(None)


def _pipe(stream: Any) -> Any:
    if stream is None:
        raise AssertionError("the fork server was started without its pipes")
    return stream
