"""One simulated run: a small cluster, its clients and its faults, from a seed to the evidence."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.proof.checker.evidence import Evidence, Fault, Life, QueuedMessage, RedisCommand, RedisKey, Terms, WireCall
from tests.proof.checker.vocabulary import LOCK
from tests.proof.simulation.api import SimulatedApi
from tests.proof.simulation.clients import Clients
from tests.proof.simulation.clock import VirtualLoop, renumber
from tests.proof.simulation.handler import Acting
from tests.proof.simulation.log_filter import Journal, journal
from tests.proof.simulation.plan import Plan
from tests.proof.simulation.processes import Process, Servers
from tests.proof.simulation.seeded_randomness import seeded
from tests.proof.simulation.wires import Service
from tests.proof.simulation.worker import run_worker, simulated_parts
from tests.proof.terms import make_terms
from tests.support.fakes.lock import FakeRedis
from tests.support.fakes.queue_model import Anomalies, StaleHandle
from tests.support.fakes.queues import SCHEME, Deed, FakeSqs
from tests.support.fakes.store_evidence import fill
from tests.support.fakes.store_tables import Tables
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay

BEGINS_AT = 1000.0
REST_EVERY_SECONDS = 0.25
SETTLING_SECONDS = 240.0
"""After healing and the last `send_at` that stands then: for what is still to be answered, with retries."""

IN_ORDER_SECONDS = 10.0
"""For each open turn of the longest session: one after the other, some of them slow, some time after time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """What a fault has struck, and how it ends: at the healing at the latest."""

    target: str
    seconds: float = 0.0
    end: Callable[[], None] | None = None
    pid: int | None = None


class World:
    """All that is alive in one life, and what the nemesis may lay hands on."""

    def __init__(self, plan: Plan, *, traced: bool = False) -> None:
        self.plan = plan
        self.loop = VirtualLoop(BEGINS_AT)
        self.chance = Random(f"world {plan.seed}")
        self.services = {name: Service(name) for name in ("store", "redis", "sqs")}
        self.evidence = Evidence(terms=_terms(plan))
        self.journal = Journal(self.loop, self.evidence.logs, traced=traced)
        self.tables = Tables(lambda: self.loop.now)
        self.redis = FakeRedis(lambda: self.loop.now, self._note_redis)
        self.sqs = self._make_sqs()
        self._servers = Servers(self.tables, self.redis, self.sqs, self.services)
        self.acting = Acting(self.loop, self.evidence.runs, self.evidence.faults)
        self.clients = Clients(self.loop, plan, Random(f"clients {plan.seed}"), self._choose_api)
        self.processes: list[Process] = []
        self.apis: dict[int, SimulatedApi] = {}
        self.healed = False
        self._ends: dict[int, Callable[[], None]] = {}

    # --- services

    @property
    def main(self) -> Any:
        return self.sqs.queues[SCHEME + self.plan.queue.sqs]

    @property
    def dead(self) -> Any:
        return self.sqs.queues[SCHEME + self.plan.queue.dlq]

    def _make_sqs(self) -> FakeSqs:
        sqs = FakeSqs(
            lambda: self.loop.now,
            Random(f"sqs {self.plan.seed}"),
            lambda at, call: self.loop.call_in(self.loop.world, at, call),
            self._note_sqs,
            stale=self.chance.choice(list(StaleHandle)),
        )
        attributes = {"FifoQueue": "true"} if self.plan.fifo else {}
        sqs.create_queue(self.plan.queue.sqs, attributes)
        sqs.create_queue(self.plan.queue.dlq, attributes)
        for queue in sqs.queues.values():
            queue.anomalies = Anomalies()
        sqs.queues[SCHEME + self.plan.queue.sqs].anomalies = sqs.anomalies
        return sqs

    def _note_redis(self, source: str, words: tuple[str, ...]) -> None:
        self.evidence.redis.append(RedisCommand(at=self.loop.now, source=source, words=list(words)))

    def _note_sqs(self, deed: Deed) -> None:
        stored = deed.message
        self.evidence.wire.append(
            WireCall(
                at=self.loop.now,
                action=deed.action,
                queue=deed.queue.name,
                dead=deed.queue.name == self.plan.queue.dlq,
                message_id=stored and stored.id,
                turn_id=stored and stored.turn_id,
                session=stored and stored.session,
                effective=deed.effective,
                answered=self.services["sqs"].answering,
                body=stored.body if stored and stored.turn_id is None else None,
                reason=deed.reason,
            )
        )

    # --- processes

    def start(self, role: str, *, lasting: bool = True) -> Process:
        """A process of the product; a lasting one is started anew whenever it ends."""
        settings = self.plan.settings
        patience = {"redis": settings.redis_timeout_seconds}
        process = Process(self.loop, self.chance, self._servers, role, len(self.processes) + 1, patience)
        self.processes.append(process)
        self._note_life(process, "started")
        process.on_death.append(lambda code: self._ended(process, code, lasting=lasting))
        match role:
            case "worker":
                handler = self.acting.handler(in_thread=self.plan.in_thread)
                run_worker(process, settings, handler)
            case "api":
                self.apis[process.pid] = process.within(lambda: SimulatedApi(process, settings))
            case "relay":
                process.run(self._relay(process))
        return process

    async def _relay(self, process: Process) -> None:
        settings = self.plan.settings
        await Relay(process.database(), MessageQueues(settings, process.sqs_client()), settings).run(asyncio.Event())

    def _ended(self, process: Process, code: int, *, lasting: bool) -> None:
        self._note_life(process, "ended", code)
        self.apis.pop(process.pid, None)
        if lasting:
            after = self.loop.now + self.chance.uniform(0.2, 2.0)
            self.loop.call_in(self.loop.world, after, lambda: self.start(process.role))

    def _note_life(self, process: Process, what: str, code: int | None = None) -> None:
        self.evidence.lives.append(
            Life(at=self.loop.now, role=process.role, pid=process.pid, what=what, code=code, meant=code != 1)
        )

    def alive(self, role: str) -> list[Process]:
        return [process for process in self.processes if process.alive and process.role == role]

    def _choose_api(self) -> SimulatedApi | None:
        return self.chance.choice(list(self.apis.values())) if self.apis else None

    # --- faults

    def note_fault(self, kind: str, blow: Blow) -> None:
        """Notes a fault that has begun, and ends it in time."""
        number = len(self.evidence.faults)
        ends_at = self.loop.now + blow.seconds
        self.evidence.faults.append(Fault(at=self.loop.now, until=ends_at, kind=kind, target=blow.target, pid=blow.pid))
        if blow.end is not None:
            self._ends[number] = blow.end
            self.loop.call_in(self.loop.world, ends_at, self._end, number)

    def _end(self, number: int) -> None:
        end = self._ends.pop(number, None)
        if end is not None:
            end()

    def heal(self) -> None:
        self.healed = True
        for number in list(self._ends):
            self._end(number)

    # --- rest

    def is_at_rest(self) -> bool:
        """Every turn has ended, every dead letter is sent, the main queue is empty, and no call is open."""
        if self.clients.under_way or self.main.messages or self.alive("redrive"):
            return False
        return all(row.status.is_terminal and row.send_at is None for row in self.tables.turns.values())

    def owed_until(self) -> float:
        """When the last open turn is due or is owed its wake-up, as the rows stand."""
        rows = [row for row in self.tables.turns.values() if row.status.is_open]
        times = [at / 1_000_000 for row in rows for at in (row.send_at, row.execute_at) if at is not None]
        return max(times, default=self.loop.now)

    def longest_session(self) -> int:
        """How many turns are still to be answered one after the other."""
        return max((len(session.open) for session in self.tables.sessions.values()), default=0)

    def collect(self) -> None:
        evidence = self.evidence
        fill(self.tables, evidence)
        evidence.history = self.clients.history
        evidence.queued = [
            QueuedMessage(
                queue=queue.name,
                dead=queue is self.dead,
                message_id=stored.id,
                body=stored.body,
                attributes={name: value["StringValue"] for name, value in stored.attributes.items()},
            )
            for queue in (self.main, self.dead)
            for stored in queue.messages
        ]
        evidence.keys = [
            RedisKey(key=key, value=self.redis.get(key) or "", ttl_ms=self.redis.pttl(key))
            for key in self.redis.keys()  # noqa: SIM118 - a server, no dict
            if LOCK in key
        ]


def _terms(plan: Plan) -> Terms:
    return make_terms(
        plan.settings,
        name=f"simulation-{plan.seed}",
        seed=plan.seed,
        bound_seconds=0.0,
        healed_at=0.0,
        rested_at=None,
        calm=not plan.kinds,
    )


Nemesis = Callable[[World], Coroutine[Any, Any, None]]


def live(plan: Plan, nemesis: Nemesis, *, traced: bool = False) -> Evidence:
    """Runs one life to its end and returns its evidence. The same plan gives the same evidence."""
    renumber()
    world = World(plan, traced=traced)
    loop = world.loop
    collecting = gc.isenabled()
    # A finaliser that runs at a moment of the collector's choice would be a choice that no seed has made.
    gc.disable()
    try:
        with seeded(plan.seed, loop), simulated_parts(), journal(world.journal):
            _run(world, nemesis)
            world.collect()
            for process in world.processes:
                process.destroy()
            loop.end()
    finally:
        if collecting:
            gc.enable()
    return world.evidence


def _run(world: World, nemesis: Nemesis) -> None:
    loop, plan = world.loop, world.plan
    for role, many in (("worker", plan.workers), ("api", 2), ("relay", plan.relays)):
        for _ in range(many):
            world.start(role)
    world.clients.schedule()
    loop.create_task(nemesis(world))
    loop.run_until(lambda: False, loop.now + plan.faulty_seconds)
    world.heal()
    healed_at = loop.now
    bound = max(0.0, world.owed_until() - healed_at) + SETTLING_SECONDS
    bound += IN_ORDER_SECONDS * world.longest_session()
    rested = False

    def look() -> None:
        nonlocal rested
        rested = world.is_at_rest()
        if not rested:
            loop.call_in(loop.world, loop.now + REST_EVERY_SECONDS, look)

    loop.call_in(loop.world, loop.now, look)
    loop.run_until(lambda: rested, healed_at + bound)
    rested_at = loop.now if rested else None
    # A lock may outlive its holder, by a lease.
    loop.run_until(lambda: False, loop.now + plan.settings.lease_seconds + 1.0)
    terms = world.evidence.terms
    world.evidence.terms = replace(terms, healed_at=healed_at, rested_at=rested_at, bound_seconds=bound)
