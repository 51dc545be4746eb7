"""Faults of the product's own processes, and what operators do to a running system."""

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from tests.proof.simulation.processes import Process
from tests.proof.simulation.seeded_run import World
from turnstile.errors import TurnstileError
from turnstile.ops.dead_letters.redrive import Candidate, Redrive, Survey
from turnstile.queries.failed_turns import FailedFilter
from turnstile.turn.status import TurnStatus

SIGKILL = -9
WALL_CLOCK_HOUR = 3600.0

Strike = Callable[[World, Random], None]


def _some(world: World, chance: Random, role: str) -> Process | None:
    found = world.alive(role)
    return chance.choice(found) if found else None


def killed(role: str) -> Strike:
    def strike(world: World, chance: Random) -> None:
        process = _some(world, chance, role)
        if process is not None:
            world.strike(f"{role}-killed", process.strand.name, 0.0, None, process.pid)
            process.die(SIGKILL)

    return strike


def frozen(role: str) -> Strike:
    """SIGSTOP for a moment, or for longer than a lease and a visibility timeout; then SIGCONT."""

    def strike(world: World, chance: Random) -> None:
        process = _some(world, chance, role)
        if process is not None:
            seconds = chance.choice([0.3, 1.0, 3.0]) * world.plan.settings.lease_seconds
            process.freeze()
            world.strike(f"{role}-frozen", process.strand.name, seconds, process.thaw, process.pid)

    return strike


def stopped(times: int) -> Strike:
    def strike(world: World, chance: Random) -> None:
        process = _some(world, chance, "worker")
        if process is None:
            return
        world.strike("worker-stopped" + "-at-once" * (times - 1), process.strand.name, 0.0, None, process.pid)
        worker = world.workers[process.pid]
        for _ in range(times):
            worker.tell_to_stop()

    return strike


def clock_shifted(world: World, chance: Random) -> None:
    """The wall clock of a process jumps by up to an hour."""
    process = chance.choice([one for one in world.processes if one.alive] or world.processes)
    process.clock_shift = chance.uniform(-WALL_CLOCK_HOUR, WALL_CLOCK_HOUR)
    world.strike("clock-shifted", process.strand.name, 0.0, None, process.pid)


def scaled_out(world: World, chance: Random) -> None:
    process = world.start("worker", lasting=False)
    world.strike("worker-added", process.strand.name, 0.0, None, process.pid)


def redriven(*, many: int, kill: bool) -> Strike:
    """An operator redrives what is FAILED; two at once; one that is killed half-way."""

    def strike(world: World, chance: Random) -> None:
        candidates = [
            Candidate(row.id, row.generation, row.queue)
            for row in world.store.tables.turns.values()
            if row.status is TurnStatus.FAILED
        ]
        if not candidates:
            return
        for _ in range(many):
            process = world.start("redrive", lasting=False)
            process.run(_redrive(world, process, candidates))
            world.strike("redrive" + "-killed" * kill, process.strand.name, 0.0, None, process.pid)
            if kill:
                after = world.loop.now + chance.uniform(0.0, 0.05)
                world.loop.call_in(world.loop.world, after, process.die, SIGKILL)

    return strike


async def _redrive(world: World, process: Process, candidates: list[Candidate]) -> None:
    redrive = Redrive(
        world.backing.database(process), world.backing.queues(process), world.plan.settings, requested_by="operator"
    )
    try:
        await redrive.run(FailedFilter(queue=world.plan.queue.name), Survey(candidates=candidates))
        process.die(0)
    except TurnstileError:
        process.die(3)


def _phantom(world: World, chance: Random) -> str:
    turn = UUID(int=chance.getrandbits(128), version=4)
    return f'{{"v":1,"tenant_id":"alpha","session_id":"phantom-{chance.getrandbits(32):x}","turn_id":"{turn}"}}'


def _malformed(world: World, chance: Random) -> str:
    return chance.choice([f"not json {chance.getrandbits(32):x}", "{}", '{"v":99}', "[]", "x" * 2000])


def _duplicate(world: World, chance: Random) -> str:
    turns = list(world.store.tables.turns.values())
    if not turns:
        return _phantom(world, chance)
    row = chance.choice(turns)
    return f'{{"v":1,"tenant_id":"{row.tenant_id}","session_id":"{row.session_id}","turn_id":"{row.id}"}}'


def injected(kind: str, body: Callable[[World, Random], str]) -> Strike:
    """A message that the product did not send."""

    def strike(world: World, chance: Random) -> None:
        options: dict[str, Any] = {}
        if world.plan.fifo:
            number = f"{chance.getrandbits(64):x}"
            options = {"MessageGroupId": number, "MessageDeduplicationId": number}
        url = f"fake://{world.plan.queue.sqs}"
        text = body(world, chance)
        world.services["sqs"].answering = True
        world.sqs.send_message(QueueUrl=url, MessageBody=text, **options)
        world.strike(kind, text[:20], 0.0, None, None)

    return strike


def moved_back(world: World, chance: Random) -> None:
    """Dead letters are put on the main queue again, with AWS's own tools; a copy of each stays."""
    for stored in world.dead.messages[:10]:
        options = {"MessageGroupId": stored.group, "MessageDeduplicationId": f"{chance.getrandbits(64):x}"}
        world.sqs.send_message(
            QueueUrl=f"fake://{world.plan.queue.sqs}",
            MessageBody=stored.body,
            MessageAttributes=stored.attributes,
            **(options if world.plan.fifo else {}),
        )
    world.strike("dead-letters-moved-back", "dlq", 0.0, None, None)


KINDS: dict[str, Strike] = {
    "worker-killed": killed("worker"),
    "api-killed": killed("api"),
    "relay-killed": killed("relay"),
    "worker-frozen": frozen("worker"),
    "api-frozen": frozen("api"),
    "relay-frozen": frozen("relay"),
    "worker-stopped": stopped(1),
    "worker-stopped-at-once": stopped(2),
    "clock-shifted": clock_shifted,
    "worker-added": scaled_out,
    "redrive": redriven(many=1, kill=False),
    "redrives-at-once": redriven(many=2, kill=False),
    "redrive-killed": redriven(many=1, kill=True),
    "phantom-message": injected("phantom-message", _phantom),
    "malformed-message": injected("malformed-message", _malformed),
    "stray-wake-up": injected("stray-wake-up", _duplicate),
    "dead-letters-moved-back": moved_back,
}
