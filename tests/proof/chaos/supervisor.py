"""The product's processes, started by the fork server, and restarted when they end, as by ECS."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from tests.proof.chaos.forking import Forked, ForkServer
from tests.proof.chaos.journal import Journal, now
from tests.proof.checker.evidence import Life

RESTART_SECONDS = 0.4
"""Between the end of a process and its successor's start."""

STOP_SECONDS = 20.0

KILLED = -signal.SIGKILL
WATCHDOG = 70
"""The exit code of a worker whose event loop was stuck; a run that blocks loops on purpose expects it."""
COMMANDS = {"redrive": {1, 4}, "doctor": {4, 5}, "retry": {1, 4}, "skip": {1, 4}, "reseal": {1, 4}}
"""Exit codes by which a command says what it found: a server is away, a finding, another command was first, turns fail again."""


@dataclass(slots=True)
class Part:
    """A place for one process at a time: its name and its variables stay when the process is another."""

    name: str
    role: str
    environment: dict[str, str]
    pid: int | None = None
    frozen: bool = False
    wanted: bool = True
    """Whether it is to be started again when it ends."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Use as a context manager: what still lives at its end is killed."""

    def __init__(self, journal: Journal, forks: ForkServer) -> None:
        self._journal = journal
        self._logs = journal.folder / "logs"
        self._forks = forks
        self.parts: dict[str, Part] = {}
        self._meant: set[int] = set()
        self._restarts: set[asyncio.Task[None]] = set()
        self._closing = False

    async def __aenter__(self) -> "Supervisor":
        self._logs.mkdir(exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        for task in self._restarts:
            task.cancel()
        for part in self.parts.values():
            if self.send(part.name, signal.SIGKILL) is not None:
                await part.ended.wait()

    def of(self, role: str) -> list[Part]:
        return [part for part in self.parts.values() if part.role == role]

    def living(self, role: str) -> list[Part]:
        return [part for part in self.of(role) if part.pid is not None and not part.frozen]

    async def add(self, name: str, role: str, environment: dict[str, str]) -> Part:
        """Starts `turnstile <role>`, and starts it again whenever it ends."""
        part = self.parts[name] = Part(name, role, environment)
        await self._start(part)
        return part

    async def run(self, argv: list[str], environment: dict[str, str]) -> Forked:
        """Starts `turnstile <argv>` once."""
        role = argv[0]
        forked = await self._forks.fork(argv, environment, self._logs)
        self._journal.write(Life(at=now(), role=role, pid=forked.pid, what="started"))

        def write_end(exited: "asyncio.Future[int]") -> None:
            if not exited.cancelled():
                self._write_end(role, forked.pid, exited.result())

        forked.exited.add_done_callback(write_end)
        return forked

    def send(self, name: str, number: signal.Signals) -> int | None:
        """Sends a signal to a part; the pid it went to."""
        part = self.parts[name]
        if part.pid is not None:
            self.send_to(part.pid, number)
            part.frozen = number == signal.SIGSTOP or (part.frozen and number != signal.SIGCONT)
        return part.pid

    def send_to(self, pid: int, number: signal.Signals) -> None:
        """Sends a signal to a process, which the journal then knows as the cause of its end."""
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            self._meant.add(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    async def stop_all(self, within_seconds: float = STOP_SECONDS) -> list[str]:
        """SIGTERM to all; the names of those that had to be killed. A worker stops when its long poll has come back."""
        for part in self.parts.values():
            part.wanted = False
            self.send(part.name, signal.SIGCONT)
            self.send(part.name, signal.SIGTERM)
        late = []
        for part in self.parts.values():
            try:
                if part.pid is not None:
                    await asyncio.wait_for(part.ended.wait(), within_seconds)
            except TimeoutError:
                late.append(part.name)
                self.send(part.name, signal.SIGKILL)
        return late

    async def _start(self, part: Part) -> None:
        forked = await self.run([part.role], part.environment)
        part.pid = forked.pid
        part.frozen = False
        part.ended.clear()
        forked.exited.add_done_callback(lambda _: self._part_ended(part, forked.pid))

    def _write_end(self, role: str, pid: int, code: int) -> None:
        # Only the harness, or a poison turn that it submitted, sends a SIGKILL.
        meant = pid in self._meant or code in {0, KILLED, WATCHDOG, *COMMANDS.get(role, ())}
        self._journal.write(Life(at=now(), role=role, pid=pid, what="ended", code=code, meant=meant))

    def _part_ended(self, part: Part, pid: int) -> None:
        if part.pid != pid:
            return
        part.pid = None
        part.frozen = False
        part.ended.set()
        if part.wanted and not self._closing:
            task = asyncio.create_task(self._restart(part))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)

    async def _restart(self, part: Part) -> None:
        await pause(RESTART_SECONDS)
        if part.wanted and part.pid is None and not self._closing:
            await self._start(part)


async def pause(seconds: float, unless: asyncio.Event | None = None) -> bool:
    event = unless or asyncio.Event()
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
