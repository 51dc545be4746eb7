"""The worker processes of `turnstile dev`: starts, stops and kills them, as `succession.follow` decides."""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import assert_never

from turnstile.dev.reload import worker_start
from turnstile.dev.reload.succession import (
    CodeChanged,
    Command,
    Ended,
    Event,
    Kill,
    KillAsked,
    Leave,
    Loaded,
    Start,
    Unfit,
    Workers,
    follow,
)
from turnstile.ops.terminal.output import say

STOP_SECONDS = 10.0
"""SIGKILL for a worker that is still there so long after the stop."""
AGAIN_SECONDS = 0.1
"""Two signals of one kind that are sent at once arrive as one."""


@dataclass(frozen=True, slots=True)
class _Process:
    process: ForkServerProcess
    report: Connection
    started_at: float


class DevWorkers:
    """The workers, one of which takes turns. For one event loop.

    `environment`: all variables of the workers. The process that they are forked from starts with the first of them.
    """

    def __init__(self, environment: Mapping[str, str], handler: str) -> None:
        self._environment = dict(environment)
        self._handler = handler
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([worker_start.__name__])
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._processes: dict[int, _Process] = {}
        self._tending: set[asyncio.Task[None]] = set()
        self.state = Workers()
        self.tried = asyncio.Event()
        """Set when the first worker has loaded the code, or has found that it can't."""

    @property
    def pid(self) -> int | None:
        """The process that takes turns."""
        serving = self._processes.get(self.state.serving or 0)
        return None if serving is None else serving.process.pid

    def code_changed(self) -> None:
        """Starts a worker with the code as it is now."""
        self._events.put_nowait(CodeChanged())

    def kill(self) -> int | None:
        """Kills the worker that takes turns; the next one starts by itself. Returns its pid, or None if there is none."""
        pid = self.pid
        if pid is not None:
            self._events.put_nowait(KillAsked())
        return pid

    async def run(self) -> None:
        """Follows what happens, until `end`."""
        while (event := await self._events.get()) is not None:
            before = self.state
            self.state, commands = follow(before, event)
            self._tell(event, before)
            for command in commands:
                await self._obey(command)
            if self.state.loading is None:
                self.tried.set()

    def end(self) -> None:
        """Lets `run` return: no worker starts after that."""
        self._events.put_nowait(None)

    async def stop(self, at_once: asyncio.Event) -> None:
        """Ends all workers, which hand their turns back. SIGKILL with `at_once`, or after STOP_SECONDS. Call it after `run`."""
        deadline = time.monotonic() + STOP_SECONDS
        while alive := [one.process for one in self._processes.values() if one.process.is_alive()]:
            hard = at_once.is_set() or time.monotonic() > deadline
            for process in alive:
                # The second SIGTERM ends the grace period.
                process.kill() if hard else process.terminate()
            await asyncio.wait({*self._tending}, timeout=AGAIN_SECONDS)
        await asyncio.gather(*self._tending)

    async def _obey(self, command: Command) -> None:
        match command:
            case Start(worker=number):
                await self._start(number)
            case Leave(worker=number):
                self._signal(number, signal.SIGTERM)
            case Kill(worker=number):
                self._signal(number, signal.SIGKILL)
            case _:
                assert_never(command)

    async def _start(self, number: int) -> None:
        report, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=worker_start.run, args=(self._environment, self._handler, theirs))
        started_at = time.monotonic()
        # The first one waits for the imports of the process that it is forked from.
        await asyncio.to_thread(process.start)
        theirs.close()
        self._processes[number] = _Process(process, report, started_at)
        tending = asyncio.create_task(self._tend(number), name=f"worker {number}")
        self._tending.add(tending)
        tending.add_done_callback(self._tending.discard)

    def _signal(self, number: int, which: signal.Signals) -> None:
        # It may have ended: then its end is the next event.
        if (found := self._processes.get(number)) is not None and found.process.is_alive():
            found.process.kill() if which is signal.SIGKILL else found.process.terminate()

    async def _tend(self, number: int) -> None:
        """Passes on what the worker reports, and its end."""
        one = self._processes[number]
        await _readable(one.report.fileno())
        try:
            fault = one.report.recv()
            self._events.put_nowait(Loaded(number) if fault is None else Unfit(number, fault))
        except EOFError:
            pass
        one.report.close()
        await _readable(one.process.sentinel)
        one.process.join()
        code = one.process.exitcode or 0
        del self._processes[number]
        one.process.close()
        self._events.put_nowait(Ended(number, code, time.monotonic() - one.started_at))

    def _tell(self, event: Event, before: Workers) -> None:
        now = self.state
        if isinstance(event, Loaded) and now.serving == event.worker and event.worker > 1:
            say(
                f"the new worker has loaded the code ({time.monotonic() - self._processes[event.worker].started_at:.2f} s)"
            )
        if now.fault is not None and now.fault != before.fault:
            goes_on = "the worker before it goes on" if now.serving else "no worker runs, and turns wait in the queue"
            say(f"\nthe code does not run; {goes_on}:\n{now.fault}\na change of the code starts it again\n")
        if isinstance(event, Ended) and event.worker == before.serving and now.loading is not None:
            say(f"the worker has ended ({_how(event.code)}); the next one starts, and takes over its turns")


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, partial(_resolve, ready))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
