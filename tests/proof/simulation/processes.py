"""A simulated process: two strands (its event loop, and all its other threads), its connections, its clocks, its death."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.proof.simulation.clock import Strand, VirtualLoop
from tests.proof.simulation.threads import LockstepThread
from tests.proof.simulation.wires import BrokenWireError, Service, SilentWireError, Wire
from tests.support.fakes.carry import Carry
from tests.support.fakes.lock import FakeRedis, FakeRedisClient
from tests.support.fakes.queues import FakeSqs, FakeSqsClient
from tests.support.fakes.store import FakeDatabase
from tests.support.fakes.store_tables import Tables
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError
from turnstile.worker.lifecycle.shutdown import Shutdown

STORE_PATIENCE_SECONDS = 15.0
"""The statement timeout; a silent server is noticed then at the latest."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Shared by all processes of a life. `services` has the outages of each by name: store, redis, sqs."""

    tables: Tables
    redis: FakeRedis
    sqs: FakeSqs
    services: dict[str, Service]


class Process:
    """Worker, API, relay or redrive."""

    def __init__(
        self, loop: VirtualLoop, chance: Random, servers: Servers, role: str, pid: int, patience: dict[str, float]
    ) -> None:
        self.loop = loop
        self.role = role
        self.pid = pid
        self.strand = Strand(f"{role}-{pid}", self)
        self.threads = Strand(f"{role}-{pid}/threads", self)
        self.wires = {
            name: Wire(loop, chance, service, patience.get(name, STORE_PATIENCE_SECONDS))
            for name, service in servers.services.items()
        }
        self.lockstep: list[LockstepThread] = []
        self.monotonic_base = chance.uniform(100.0, 100_000.0)
        self.clock_shift = 0.0
        self.alive = True
        self.shutdown: Shutdown | None = None
        """A worker's, once it handles signals."""
        self.on_death: list[Callable[[int], None]] = []
        self._servers = servers

    # --- connections

    def database(self) -> Database:
        carry = self._carry("store", lambda error: DatabaseUnavailableError(str(error)))
        return cast("Database", FakeDatabase(self._servers.tables, carry))

    def redis_client(self) -> FakeRedisClient:
        return FakeRedisClient(self._servers.redis, self._carry("redis", _redis_error))

    def sqs_client(self) -> FakeSqsClient:
        return FakeSqsClient(self._servers.sqs, self._carry("sqs", lambda error: QueueUnavailableError(str(error))))

    def _carry(self, service: str, to_error: Callable[[BrokenWireError], Exception]) -> Carry:
        wire = self.wires[service]

        async def carry(call: Callable[[], Any], seconds: float | None = None, /) -> Any:
            try:
                return await wire.ask(call, seconds)
            except BrokenWireError as error:
                raise to_error(error) from error

        return carry

    # --- what it does

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.within(lambda: self.loop.create_task(coroutine))

    def within(self, call: Callable[[], Any]) -> Any:
        """Calls something as this process's event loop would."""
        return self.on(self.strand, call)

    def on(self, strand: Strand, call: Callable[[], Any]) -> Any:
        """Calls something as one of this process's strands would."""
        before, self.loop.current = self.loop.current, strand
        try:
            return call()
        finally:
            self.loop.current = before

    # --- what happens to it

    def die(self, code: int) -> None:
        """SIGKILL, or an end of its own: not another line of it runs."""
        if not self.alive:
            return
        self.alive = False
        self.loop.kill(self.strand)
        self.loop.kill(self.threads)
        for notify in self.on_death:
            notify(code)

    def terminate(self) -> None:
        """SIGTERM, to a worker."""
        if self.shutdown is not None and self.alive:
            self.loop.call_in(self.strand, self.loop.now, self.shutdown.signal)

    def freeze(self) -> None:
        self.loop.suspend(self.strand)
        self.loop.suspend(self.threads)

    def thaw(self) -> None:
        self.loop.resume(self.strand)
        self.loop.resume(self.threads)

    def block_loop(self, seconds: float) -> None:
        """Something keeps the event loop's thread to itself; the other threads go on."""
        self.loop.suspend(self.strand)
        self.loop.call_in(self.loop.world, self.loop.now + seconds, self.loop.resume, self.strand)

    def destroy(self) -> None:
        """Ends its real threads, when the life is over."""
        for thread in self.lockstep:
            thread.destroy()


def _redis_error(error: BrokenWireError) -> Exception:
    kind = RedisTimeoutError if isinstance(error, SilentWireError) else RedisConnectionError
    return kind(str(error))
