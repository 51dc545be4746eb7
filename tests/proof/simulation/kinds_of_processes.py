"""Faults of the product's own processes, and what operators do to a running system."""

from collections.abc import Callable, Iterator
from copy import copy
from random import Random
from typing import Any
from uuid import UUID

from tests.proof.simulation.processes import Process
from tests.proof.simulation.seeded_run import Blow, World
from tests.support.fakes.queues import SCHEME
from turnstile.errors import TurnstileError
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.redrive import Redrive
from turnstile.turn.status import TurnStatus

SIGKILL = -9
WALL_CLOCK_HOUR = 3600.0

Strike = Callable[[World, Random], Iterator[Blow]]
"""Does harm, and says to what. Nothing, where there is nothing that it could strike."""


def of_process(role: str, harm: Callable[[World, Random, Process], Blow]) -> Strike:
    """Strikes one process of that role, if any is alive."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        if found := world.alive(role):
            yield harm(world, chance, chance.choice(found))

    return strike


def _blow_to(process: Process, **fields: Any) -> Blow:
    return Blow(target=process.strand.name, pid=process.pid, **fields)


def kill(world: World, chance: Random, process: Process) -> Blow:
    process.die(SIGKILL)
    return _blow_to(process)


def freeze(world: World, chance: Random, process: Process) -> Blow:
    """SIGSTOP for a moment, or for longer than a lease and a visibility timeout; then SIGCONT."""
    seconds = chance.choice([0.3, 1.0, 3.0]) * world.plan.settings.lease_seconds
    process.freeze()
    return _blow_to(process, seconds=seconds, end=process.thaw)


def stop(world: World, chance: Random, process: Process) -> Blow:
    process.terminate()
    return _blow_to(process)


def stop_at_once(world: World, chance: Random, process: Process) -> Blow:
    process.terminate()
    process.terminate()
    return _blow_to(process)


def shift_clock(world: World, chance: Random) -> Iterator[Blow]:
    """The wall clock of a process jumps by up to an hour."""
    process = chance.choice([one for one in world.processes if one.alive] or world.processes)
    process.clock_shift = chance.uniform(-WALL_CLOCK_HOUR, WALL_CLOCK_HOUR)
    yield _blow_to(process)


def scale_out(world: World, chance: Random) -> Iterator[Blow]:
    yield _blow_to(world.start("worker", lasting=False))


def redrive(world: World, chance: Random) -> Iterator[Blow]:
    """An operator redrives what is FAILED."""
    for process in _start_redrives(world, 1):
        yield _blow_to(process)


def redrive_twice(world: World, chance: Random) -> Iterator[Blow]:
    for process in _start_redrives(world, 2):
        yield _blow_to(process)


def kill_redrive(world: World, chance: Random) -> Iterator[Blow]:
    for process in _start_redrives(world, 1):
        after = world.loop.now + chance.uniform(0.0, 0.05)
        world.loop.call_in(world.loop.world, after, process.die, SIGKILL)
        yield _blow_to(process)


def _start_redrives(world: World, many: int) -> list[Process]:
    # Copies: a redrive compares the generation that it has read with that of the row.
    failed = [copy(row) for row in world.tables.turns.values() if row.status is TurnStatus.FAILED]
    processes = [world.start("redrive", lasting=False) for _ in range(many if failed else 0)]
    for process in processes:
        process.run(_redrive(world, process, failed))
    return processes


async def _redrive(world: World, process: Process, failed: list[Any]) -> None:
    settings = world.plan.settings
    queues = MessageQueues(settings, process.sqs_client())
    try:
        redrive = Redrive(process.database(), queues, settings, requested_by="operator")
        await redrive.run(FailedFilter(queue=world.plan.queue.name), failed)
        process.die(0)
    except TurnstileError:
        process.die(3)


def _wake_up(tenant_id: str, session_id: str, turn_id: UUID) -> str:
    return f'{{"v":1,"tenant_id":"{tenant_id}","session_id":"{session_id}","turn_id":"{turn_id}"}}'


def _phantom(world: World, chance: Random) -> str:
    turn_id = UUID(int=chance.getrandbits(128), version=4)
    return _wake_up("alpha", f"phantom-{chance.getrandbits(32):x}", turn_id)


def _malformed(world: World, chance: Random) -> str:
    return chance.choice([f"not json {chance.getrandbits(32):x}", "{}", '{"v":99}', "[]", "x" * 2000])


def _duplicate(world: World, chance: Random) -> str:
    turns = list(world.tables.turns.values())
    if not turns:
        return _phantom(world, chance)
    row = chance.choice(turns)
    return _wake_up(row.tenant_id, row.session_id, row.id)


def inject(make_body: Callable[[World, Random], str]) -> Strike:
    """A message that the product did not send."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        options: dict[str, Any] = {}
        if world.plan.fifo:
            number = f"{chance.getrandbits(64):x}"
            options = {"MessageGroupId": number, "MessageDeduplicationId": number}
        body = make_body(world, chance)
        world.services["sqs"].answering = True
        world.sqs.send_message(QueueUrl=SCHEME + world.plan.queue.sqs, MessageBody=body, **options)
        yield Blow(target=body[:20])

    return strike


def move_back(world: World, chance: Random) -> Iterator[Blow]:
    """Dead letters are put on the main queue again, with AWS's own tools; a copy of each stays."""
    for stored in world.dead.messages[:10]:
        options = {"MessageGroupId": stored.group, "MessageDeduplicationId": f"{chance.getrandbits(64):x}"}
        world.sqs.send_message(
            QueueUrl=SCHEME + world.plan.queue.sqs,
            MessageBody=stored.body,
            MessageAttributes=stored.attributes,
            **(options if world.plan.fifo else {}),
        )
    yield Blow(target="dlq")


KINDS: dict[str, Strike] = {
    "worker-killed": of_process("worker", kill),
    "api-killed": of_process("api", kill),
    "relay-killed": of_process("relay", kill),
    "worker-frozen": of_process("worker", freeze),
    "api-frozen": of_process("api", freeze),
    "relay-frozen": of_process("relay", freeze),
    "worker-stopped": of_process("worker", stop),
    "worker-stopped-at-once": of_process("worker", stop_at_once),
    "clock-shifted": shift_clock,
    "worker-added": scale_out,
    "redrive": redrive,
    "redrives-at-once": redrive_twice,
    "redrive-killed": kill_redrive,
    "phantom-message": inject(_phantom),
    "malformed-message": inject(_malformed),
    "stray-wake-up": inject(_duplicate),
    "dead-letters-moved-back": move_back,
}
