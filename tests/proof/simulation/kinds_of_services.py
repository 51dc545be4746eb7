"""Faults of Postgres, Redis and SQS, of the connections to them, and what SQS may do at any time."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from tests.proof.simulation.kinds_of_processes import Strike
from tests.proof.simulation.processes import Process
from tests.proof.simulation.seeded_run import Blow, World
from tests.proof.simulation.wires import CALM, Weather


def _put(processes: list[Process], service: str, weather: Weather) -> Callable[[], None]:
    wires = [process.wires[service] for process in processes]
    for wire in wires:
        wire.weather = weather

    def end() -> None:
        for wire in wires:
            # Another fault may have come over it since.
            if wire.weather is weather:
                wire.weather = CALM

    return end


def weather(service: str, most_seconds: float, make: Callable[[Random], Weather]) -> Strike:
    """Something is wrong with the connections of all processes to a service."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        end = _put([process for process in world.processes if process.alive], service, make(chance))
        yield Blow(target=service, seconds=chance.uniform(1.0, most_seconds), end=end)

    return strike


def cut_off(service: str) -> Strike:
    """One process loses one service and keeps the others, often for longer than its leases last."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        found = [process for process in world.processes if process.alive]
        workers = world.alive("worker")
        process = chance.choice(workers if workers and chance.random() < 0.8 else found)
        end = _put([process], service, Weather(cut=True, hangs=chance.random() < 0.3))
        seconds = chance.choice([0.3, 1.2, 2.5]) * world.plan.settings.lease_seconds
        yield Blow(target=process.strand.name, seconds=seconds, end=end, pid=process.pid)

    return strike


def away(service: str) -> Strike:
    def strike(world: World, chance: Random) -> Iterator[Blow]:
        one = world.services[service]
        one.down += 1

        def end() -> None:
            one.down -= 1

        seconds = chance.choice([0.3, 2.0, 1.5 * world.plan.settings.lease_seconds])
        yield Blow(target=service, seconds=seconds, end=end)

    return strike


def hold_turns(lock: str) -> Strike:
    """Another transaction locks the turns, for longer than a lease: no worker can renew, and each of them lives."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        def add(one: int) -> None:
            setattr(world.tables, lock, getattr(world.tables, lock) + one)

        add(1)
        seconds = chance.uniform(1.2, 2.5) * world.plan.settings.lease_seconds
        yield Blow(target="store", seconds=seconds, end=partial(add, -1))

    return strike


def flush(world: World, chance: Random) -> Iterator[Blow]:
    world.redis.flush()
    yield Blow(target="redis")


def empty_queue(world: World, chance: Random) -> Iterator[Blow]:
    world.main.purge()
    yield Blow(target="sqs")


def anomaly(name: str, share: float) -> Strike:
    """SQS does for a while what it may do at any time."""

    def strike(world: World, chance: Random) -> Iterator[Blow]:
        anomalies = world.sqs.anomalies
        setattr(anomalies, name, share)
        yield Blow(target="sqs", seconds=chance.uniform(2.0, 15.0), end=partial(setattr, anomalies, name, 0.0))

    return strike


def slow(*means: float) -> Callable[[Random], Weather]:
    return lambda chance: Weather(slow_seconds=chance.choice(means))


def losing(chance: Random) -> Weather:
    return Weather(loses=0.3)


KINDS: dict[str, Strike] = {
    "store-away": away("store"),
    "redis-away": away("redis"),
    "sqs-away": away("sqs"),
    "store-table-locked": hold_turns("turns_locked"),
    "store-rows-backfilled": hold_turns("turns_backfilled"),
    "cut-off-from-store": cut_off("store"),
    "cut-off-from-redis": cut_off("redis"),
    "cut-off-from-sqs": cut_off("sqs"),
    "store-answers-lost": weather("store", 8.0, losing),
    "redis-answers-lost": weather("redis", 8.0, losing),
    "sqs-answers-lost": weather("sqs", 10.0, losing),
    "store-flaky": weather("store", 8.0, lambda _: Weather(breaks=0.2, loses=0.1)),
    "store-slow": weather("store", 8.0, slow(0.05, 0.5)),
    "redis-slow": weather("redis", 8.0, slow(0.05, 0.3)),
    "sqs-slow": weather("sqs", 10.0, slow(0.1, 2.0)),
    "redis-flushed": flush,
    "wake-ups-lost": empty_queue,
    "messages-doubled": anomaly("twice", 0.4),
    "messages-redelivered": anomaly("again", 0.3),
    "deletes-without-effect": anomaly("undeleted", 0.3),
    "deleted-messages-return": anomaly("returns", 0.3),
    "messages-vanish": anomaly("vanishes", 0.3),
    "batch-entries-refused": anomaly("refuses", 0.3),
    "sqs-throttled": anomaly("throttles", 0.5),
    "messages-out-of-order": anomaly("disorder", 1.0),
}
