"""A simulated worker: the real `worker.app`, composed by itself, with simulated connections to Postgres, Redis and SQS.

Where the real one makes a thread, a lock client, or asks for its pid, it gets the simulation's; nothing else differs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import turnstile.worker.app
import turnstile.worker.composition
import turnstile.worker.process.watchdog
import turnstile.worker.resources
from tests.proof.simulation.client_wires import RedisWire, carry_to_sqs
from tests.proof.simulation.clock import VirtualLoop, number
from tests.proof.simulation.processes import Process
from tests.proof.simulation.store import SimulatedDatabase
from tests.proof.simulation.threads import start_thread
from tests.support.fakes.lock import FakeClient as FakeRedisClient
from tests.support.fakes.lock import FakeRedis
from tests.support.fakes.queues import FakeClient, FakeMessageQueues, FakeSqs
from tests.support.fakes.store import FakeDatabase
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.redis_clients import RedisClients
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.memory.kinds import Pressure
from turnstile.streaming.stream import Append, Appended
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.heartbeat import Connections, Heartbeat
from turnstile.worker.process.shutdown import Shutdown
from turnstile.worker.resources import Resources
from turnstile.worker.session_lock import SessionLock


class Backing:
    """The three servers, shared by all processes of a life."""

    def __init__(
        self, loop: VirtualLoop, settings: Settings, store: FakeDatabase, redis: FakeRedis, sqs: FakeSqs
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.store = store
        self.redis = redis
        self.sqs = sqs

    def database(self, process: Process) -> Any:
        return SimulatedDatabase(self.store, process.wires["store"])

    def queues(self, process: Process) -> FakeMessageQueues:
        return FakeMessageQueues(self.settings, FakeClient(self.sqs, carry_to_sqs(process.wires["sqs"])))

    def guarded(self, process: Process, name: str) -> Guarded:
        client = FakeRedisClient(self.redis, RedisWire(process.wires["redis"]))
        return Guarded(name, client, self.settings.redis_timeout_seconds)

    def redis_clients(self, process: Process) -> RedisClients:
        return RedisClients(self.guarded(process, "lock"), self.guarded(process, "memory"))


class SimulatedHeartbeat(Heartbeat):
    """The real heartbeat; its thread is a task on the strand of the process's threads."""

    def __init__(self, backing: Backing, process: Process, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._backing = backing
        self._process = process
        self._task: Any = None

    def start(self) -> None:
        loop = self._backing.loop
        self._task = self._process.on(self._process.threads, lambda: loop.create_task(self.serve()))

    def stop(self, timeout_seconds: float) -> Any:
        """Ends it; to be awaited, where the real one blocks."""
        self._stopping = True
        self._rouse()
        return asyncio.wait({self._task}, timeout=timeout_seconds)

    def _rouse(self) -> None:
        loop = self._backing.loop
        loop.call_in(self._process.threads, loop.now, self._roused.set)

    async def _connect(self, stack: AsyncExitStack) -> Connections:
        backing, process = self._backing, self._process
        lock = SessionLock(backing.settings, backing.guarded(process, "lock"))
        return Connections(backing.database(process), lock, backing.queues(process))


class HandlerThreads:
    """The pool for plain functions: each call on a thread in lockstep."""

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def submit(self, call: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call(*args))
            except Exception as error:  # the caller's, whatever it is
                future.set_exception(error)

        self._process.lockstep.append(start_thread(self._loop, self._process.threads, run, "handler"))
        return future

    def shutdown(self, **_: Any) -> None:
        """As `ThreadPoolExecutor.shutdown`."""


class NoWatch:
    """As `memory.watch.MemoryWatch`."""

    pressure = Pressure.NONE

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: who ends before has broken."""
        await stopping.wait()


async def _hear_nothing(settings: Settings, redis: Guarded, nudge: Callable[[UUID], None]) -> None:
    """Hints decide nothing: what they would make quicker must come right without them."""
    await asyncio.Event().wait()


class SilentEvents:
    """The streams of events, away for the whole of a life: nothing that is judged here depends on them."""

    def append(self, _: Append) -> "asyncio.Future[Appended]":
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.AWAY)
        return answered


@contextmanager
def worker_parts(backing: Backing) -> Iterator[None]:
    """While it lasts, a worker is composed of the simulation's parts."""
    loop = backing.loop

    def leave(code: int) -> None:
        loop.current.process.die(code)

    system = {
        "socket": SimpleNamespace(gethostname=lambda: "host"),
        "os": SimpleNamespace(getpid=lambda: loop.current.process.pid),
    }
    in_resources = {
        "RedisClients": SimpleNamespace(open=lambda _: backing.redis_clients(loop.current.process)),
        # The handlers of the simulation keep nothing, and there is no Redis to watch.
        "MemoryWatch": lambda _: NoWatch(),
        "EventWriter": lambda *_: SilentEvents(),
    }
    in_turn_work = {
        "listen": _hear_nothing,
        "Heartbeat": lambda *arguments: SimulatedHeartbeat(backing, loop.current.process, *arguments),
        "in_own_thread": _at_once,
        "ThreadPoolExecutor": lambda *_: HandlerThreads(loop, loop.current.process),
    }
    modules: dict[Any, dict[str, Any]] = {
        turnstile.worker.resources: {**system, **in_resources},
        turnstile.worker.composition: {**system, **in_turn_work},
        # A process calls it once. Here each life would keep for good what the lives before it have left.
        turnstile.worker.app: {"spare_collector": lambda: None},
    }
    with ExitStack() as stack:
        for module, parts in modules.items():
            for name, part in parts.items():
                stack.enter_context(patch.object(module, name, part))
        # The processor keeps its attempts in a set, and stops them in the set's order: by number, not by address.
        stack.enter_context(patch.object(Attempt, "__hash__", number))
        stack.enter_context(patch.object(turnstile.worker.process.watchdog, "os", SimpleNamespace(_exit=leave)))
        yield


async def _at_once(call: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    await call(*arguments)


class SimulatedWorker:
    """One worker process. `told` is how it is told to stop."""

    def __init__(self, backing: Backing, process: Process, handler: Handler) -> None:
        self.process = process
        self.shutdown: Shutdown | None = None
        self._backing = backing
        self._handler = handler
        process.run(self._run())

    def tell_to_stop(self) -> None:
        if self.shutdown is not None and self.process.alive:
            self._backing.loop.call_in(self.process.strand, self._backing.loop.now, self.shutdown.signal)

    async def _run(self) -> None:
        settings = self._backing.settings
        self.shutdown = Shutdown()
        async with AsyncExitStack() as stack:
            database = self._backing.database(self.process)
            queues = self._backing.queues(self.process)
            address = await turnstile.worker.app._find_queue(queues, settings.queue, self.shutdown.stopping)
            code = 0
            if address is not None:
                worker_id = turnstile.worker.resources.name_worker()
                resources = Resources.open(stack, settings, self._handler, worker_id, database, queues, address)
                code = await turnstile.worker.app._Worker(resources, self.shutdown).run(stack)
        self.process.die(code)
