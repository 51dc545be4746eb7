"""A simulated process: two strands (its event loop, and all its other threads), its wires, its clocks, its death."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.proof.simulation.clock import Strand, VirtualLoop
from tests.proof.simulation.threads import LockstepThread
from tests.proof.simulation.wires import Service, Wire

STORE_PATIENCE_SECONDS = 15.0
"""The statement time-out; a silent server is noticed then at the latest."""


class Process:
    """Worker, API, relay or redrive."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: Random,
        services: dict[str, Service],
        role: str,
        pid: int,
        patience: dict[str, float],
    ) -> None:
        self.loop = loop
        self.role = role
        self.pid = pid
        self.strand = Strand(f"{role}-{pid}", self)
        self.threads = Strand(f"{role}-{pid}/threads", self)
        self.wires = {
            name: Wire(loop, chance, service, patience.get(name, STORE_PATIENCE_SECONDS))
            for name, service in services.items()
        }
        self.lockstep: list[LockstepThread] = []
        self.monotonic_base = chance.uniform(100.0, 100_000.0)
        self.clock_shift = 0.0
        self.alive = True
        self.frozen = 0
        self.on_death: list[Callable[[int], None]] = []

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

    def die(self, code: int) -> None:
        """SIGKILL, or an end of its own: not another line of it runs."""
        if not self.alive:
            return
        self.alive = False
        self.loop.kill(self.strand)
        self.loop.kill(self.threads)
        for told in self.on_death:
            told(code)

    def freeze(self) -> None:
        self.frozen += 1
        self.loop.hold(self.strand)
        self.loop.hold(self.threads)

    def thaw(self) -> None:
        self.frozen -= 1
        self.loop.let_go(self.strand)
        self.loop.let_go(self.threads)

    def block_loop(self, seconds: float) -> None:
        """Something keeps the event loop's thread to itself; the other threads go on."""
        self.loop.hold(self.strand)
        self.loop.call_in(self.loop.world, self.loop.now + seconds, self.loop.let_go, self.strand)

    def destroy(self) -> None:
        """Ends its real threads, when the life is over."""
        for thread in self.lockstep:
            thread.destroy()
