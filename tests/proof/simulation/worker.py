"""A simulated worker: the real `worker.worker_process`, with simulated connections to Postgres, Redis and SQS.

Where the real one opens a connection, makes a thread, or asks for its pid, it gets the simulation's; nothing else differs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import turnstile.message_queue
import turnstile.process.redis_clients
import turnstile.worker.composition
import turnstile.worker.heartbeat
import turnstile.worker.lifecycle.watchdog
import turnstile.worker.resources
import turnstile.worker.worker_process
from tests.proof.simulation.clock import number
from tests.proof.simulation.processes import Process
from tests.proof.simulation.threads import LockstepThread
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.memory.kinds import Pressure
from turnstile.streaming.stream import Append, Appended
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.lifecycle.shutdown import Shutdown


def run_worker(process: Process, settings: Settings, handler: Handler) -> None:
    running = process.run(turnstile.worker.worker_process._run(settings, handler))
    running.add_done_callback(lambda task: process.die(task.result()))


class SimulatedHeartbeat(Heartbeat):
    """The real heartbeat; its thread is a task on the strand of the process's threads."""

    def start(self) -> None:
        self._process = _this_process()
        self._task = self._process.on(
            self._process.threads, lambda: asyncio.get_running_loop().create_task(self.serve())
        )

    def stop(self, timeout_seconds: float) -> Any:
        """Ends it; to be awaited, where the real one blocks."""
        self._stopping = True
        self._rouse()
        return asyncio.wait({self._task}, timeout=timeout_seconds)

    def _rouse(self) -> None:
        loop = self._process.loop
        loop.call_in(self._process.threads, loop.now, self._roused.set)


class SimulatedShutdown(Shutdown):
    """The real shutdown; `Process.terminate` is its signal."""

    def install(self) -> None:
        _this_process().shutdown = self


class HandlerThreads:
    """The pool for plain functions: each call on a thread in lockstep."""

    def submit(self, call: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call(*args))
            except Exception as error:  # the caller's, whatever it is
                future.set_exception(error)

        process = _this_process()
        process.lockstep.append(LockstepThread(process.loop, process.threads, run))
        return future

    def shutdown(self, **_: Any) -> None:
        """As `ThreadPoolExecutor.shutdown`."""


class NoWatch:
    """As `memory.watch.MemoryWatch`: the handlers of the simulation keep nothing, and there is no Redis to watch."""

    pressure = Pressure.NONE

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: who ends before has broken."""
        await stopping.wait()


async def _hear_nothing(settings: Settings, redis: GuardedRedis, nudge: Callable[[UUID], None]) -> None:
    """Hints decide nothing: what they would make quicker must come right without them."""
    await asyncio.Event().wait()


class SilentEvents:
    """The streams of events, away for the whole of a life: nothing that is judged here depends on them."""

    def append(self, _: Append) -> "asyncio.Future[Appended]":
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.AWAY)
        return answered


@contextmanager
def simulated_parts() -> Iterator[None]:
    """While it lasts, the product opens the simulation's connections, and a worker is composed of its parts."""
    system = {
        "socket": SimpleNamespace(gethostname=lambda: "host"),
        "os": SimpleNamespace(getpid=lambda: _this_process().pid),
    }
    database = {"Database": lambda *_, **__: _this_process().database()}
    modules: dict[Any, dict[str, Any]] = {
        turnstile.process.redis_clients: {"connect": lambda *_: _this_process().redis_client()},
        turnstile.message_queue: {"SqsClient": SimpleNamespace(open=lambda *_: _this_process().sqs_client())},
        turnstile.worker.heartbeat: database,
        turnstile.worker.resources: {
            **system,
            "MemoryWatch": lambda _: NoWatch(),
            "EventWriter": lambda *_: SilentEvents(),
        },
        turnstile.worker.composition: {
            **system,
            "listen": _hear_nothing,
            "Heartbeat": SimulatedHeartbeat,
            # A thread that watches real time.
            "BlockedLoopWatch": lambda *_: SimpleNamespace(
                start=lambda: None, stop=lambda: None, blocked_for=lambda: 0.0, blocked_by=lambda: None
            ),
            "in_own_thread": _at_once,
            "ThreadPoolExecutor": lambda *_: HandlerThreads(),
        },
        turnstile.worker.worker_process: {
            **database,
            "Shutdown": SimulatedShutdown,
            # Two that a process calls once, for good. Here each life would leave something to the lives after it.
            "logs": SimpleNamespace(identify=lambda **_: None),
            "spare_collector": lambda: None,
        },
        turnstile.worker.lifecycle.watchdog: {
            "os": SimpleNamespace(_exit=lambda code: _this_process().die(code)),
            # They would be the simulation's own.
            "_stacks": lambda: "",
        },
        # The processor keeps its attempts in a set, and stops them in the set's order: by number, not by address.
        Attempt: {"__hash__": number},
    }
    with ExitStack() as stack:
        for module, parts in modules.items():
            for name, part in parts.items():
                stack.enter_context(patch.object(module, name, part))
        yield


def _this_process() -> Process:
    loop: Any = asyncio.get_running_loop()
    process: Process = loop.current.process
    return process


async def _at_once(call: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    await call(*arguments)
