"""What a kind of fault works on, and what makes a kind."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.proof.chaos.clients import Client
from tests.proof.chaos.forking import Forked
from tests.proof.chaos.servers import Servers
from tests.proof.chaos.supervisor import Part, Supervisor, pause

ALL = "all"
"""All ports of a service on the proxy."""
PATIENCE_SECONDS = 8.0
REDRIVEN = (5, 80)
"""How many turns one redrive puts back. What fails always fails again: with all of them, a run of an hour would come to work on
nothing but its redrives."""
PACES = ((), ("--rate", "5"))
"""A batch has 50 turns, or as many as go back in a second. Between two batches a redrive may stop by itself."""
UNCOUNTED = frozenset({"cut", "half_open"})


class NothingThereError(Exception):
    pass


@dataclass(slots=True, kw_only=True)
class Scene:
    """The run, as a fault sees it. `healing` is set when the time of the faults is over: every fault ends then."""

    servers: Servers
    processes: Supervisor
    clients: list[Client]
    rng: random.Random
    healing: asyncio.Event

    async def last(self, least: float, most: float) -> None:
        """Goes on for some seconds, or until the faults must stop."""
        await pause(self.rng.uniform(least, most), self.healing)

    def some(self, role: str) -> Part:
        """A living process of a role, by chance. Raises NothingThereError."""
        if living := self.processes.living(role):
            return self.rng.choice(living)
        raise NothingThereError

    async def suffer(
        self, service: str, name: str, toxic: str, least: float, most: float, **parameters: Any
    ) -> str | None:
        """A fault of the proxy for some seconds, and for some more if it has hit nothing by then; None if it never did."""
        proxy = self.servers.proxy
        before = await proxy.hits(service, toxic, name)
        await proxy.set(service, name, toxic, **parameters)
        deadline = time.monotonic() + most + PATIENCE_SECONDS
        try:
            await self.last(least, most)
            while not (hits := await proxy.hits(service, toxic, name) - before) and time.monotonic() < deadline:
                if toxic in UNCOUNTED or await pause(0.2, self.healing):
                    break
        finally:
            await proxy.heal(service, None if name == ALL else name, toxic)
        # A cut that closed nothing has refused whatever came, which is not counted.
        return f"{name}: {hits} times" if hits or toxic in UNCOUNTED else None

    async def submit(self, content: dict[str, Any], **fields: Any) -> str:
        """A turn that is itself the fault; what it is called in the log of faults."""
        turn_id = await self.rng.choice(self.clients).submit_special(content, **fields)
        return turn_id or "not accepted"

    async def redrive(self) -> Forked:
        """Starts a redrive of some dead turns, the oldest."""
        argv = ["redrive", "--yes", "--limit", str(self.rng.randint(*REDRIVEN)), *self.rng.choice(PACES)]
        return await self.processes.run(argv, await self.servers.variables("redrive"))

    async def inject(self, body: str) -> None:
        """Puts something on the main queue that no producer of ours sent."""
        url = self.servers.queue_url(self.servers.queue)
        more = {"MessageGroupId": "x", "MessageDeduplicationId": f"{self.rng.getrandbits(64):x}"}
        extra = more if self.servers.options.fifo else {}
        await asyncio.to_thread(self.servers.sqs.send_message, QueueUrl=url, MessageBody=body, **extra)


Strike = Callable[[Scene], Awaitable[str | None]]


def toxic(service: str, name: str, least: float, most: float, **parameters: Any) -> Strike:
    """A toxic of the proxy between all processes and a service, for some seconds."""
    return lambda scene: scene.suffer(service, ALL, name, least, most, **parameters)


def cut_off_worker(service: str, least: float, most: float) -> Strike:
    """One worker loses one service and keeps the others."""

    async def strike(scene: Scene) -> str | None:
        how = scene.rng.choice(["cut", "half_open"])
        return await scene.suffer(service, scene.some("worker").name, how, least, most)

    return strike


def lose_responses(service: str) -> Strike:
    """Calls that write are done, and the connection breaks before the response is through."""

    async def strike(scene: Scene) -> str | None:
        count = scene.rng.randint(2, 8)
        return await scene.suffer(service, ALL, "answer_lost", 0.5, 2, probability=0.3, count=count)

    return strike


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. `strike` makes it and ends it, and returns what it hit; None if there was nothing to hit."""

    name: str
    strike: Strike
    group: str = ""
    """Kinds with the same group strike one at a time: they would undo each other."""
    shared: bool = True
    """False: it hits whatever else uses the same stack, so only a run that has a stack of its own may use it."""
    fifo: bool = True
    """False: a FIFO queue does no such thing."""
    lingers: float = 0.0
    """Seconds that its effect may last after the strike: a turn has to be answered before it can do harm."""
