"""Faults of Postgres, Redis and SQS, of the connections to them, and what SQS may do at any time."""

from collections.abc import Callable
from random import Random

from tests.proof.simulation.processes import Process
from tests.proof.simulation.seeded_run import World
from tests.proof.simulation.wires import CALM, Weather, Wire

Strike = Callable[[World, Random], None]
Seconds = tuple[float, float]


def _put(wires: list[Wire], weather: Weather) -> Callable[[], None]:
    for wire in wires:
        wire.weather = weather

    def end() -> None:
        for wire in wires:
            # Another fault may have come over it since.
            if wire.weather is weather:
                wire.weather = CALM

    return end


def weather(service: str, kind: str, make: Callable[[Random], Weather], lasts: Seconds) -> Strike:
    """Something is wrong with the connections of all processes to a service."""

    def strike(world: World, chance: Random) -> None:
        wires = [process.wires[service] for process in world.processes if process.alive]
        end = _put(wires, make(chance))
        world.strike(kind, service, chance.uniform(*lasts), end, None)

    return strike


def cut_off(service: str) -> Strike:
    """One process loses one service and keeps the others, often for longer than its leases last."""

    def strike(world: World, chance: Random) -> None:
        found: list[Process] = [process for process in world.processes if process.alive]
        workers = [process for process in found if process.role == "worker"]
        process = chance.choice(workers if workers and chance.random() < 0.8 else found)
        end = _put([process.wires[service]], Weather(cut=1, hangs=chance.random() < 0.3))
        seconds = chance.choice([0.3, 1.2, 2.5]) * world.plan.settings.lease_seconds
        world.strike(f"cut-off-from-{service}", process.strand.name, seconds, end, process.pid)

    return strike


def away(service: str) -> Strike:
    def strike(world: World, chance: Random) -> None:
        one = world.services[service]
        one.down += 1

        def end() -> None:
            one.down -= 1

        seconds = chance.choice([0.3, 2.0, 1.5 * world.plan.settings.lease_seconds])
        world.strike(f"{service}-away", service, seconds, end, None)

    return strike


def flushed(world: World, chance: Random) -> None:
    world.redis.flush()
    world.strike("redis-flushed", "redis", 0.0, None, None)


def emptied(world: World, chance: Random) -> None:
    world.main.purge()
    world.strike("wake-ups-lost", "sqs", 0.0, None, None)


def anomaly(kind: str, name: str, share: float) -> Strike:
    """SQS does for a while what it may do at any time."""

    def strike(world: World, chance: Random) -> None:
        anomalies = world.sqs.anomalies
        setattr(anomalies, name, share)

        def end() -> None:
            setattr(anomalies, name, 0.0)

        world.strike(kind, "sqs", chance.uniform(2.0, 15.0), end, None)

    return strike


KINDS: dict[str, Strike] = {
    "store-away": away("store"),
    "redis-away": away("redis"),
    "sqs-away": away("sqs"),
    "cut-off-from-store": cut_off("store"),
    "cut-off-from-redis": cut_off("redis"),
    "cut-off-from-sqs": cut_off("sqs"),
    "store-answers-lost": weather("store", "store-answers-lost", lambda _: Weather(loses=0.3), (1.0, 8.0)),
    "redis-answers-lost": weather("redis", "redis-answers-lost", lambda _: Weather(loses=0.3), (1.0, 8.0)),
    "sqs-answers-lost": weather("sqs", "sqs-answers-lost", lambda _: Weather(loses=0.3), (1.0, 10.0)),
    "store-flaky": weather("store", "store-flaky", lambda _: Weather(breaks=0.2, loses=0.1), (1.0, 8.0)),
    "store-slow": weather(
        "store", "store-slow", lambda chance: Weather(slow_seconds=chance.choice([0.05, 0.5])), (1, 8)
    ),
    "redis-slow": weather(
        "redis", "redis-slow", lambda chance: Weather(slow_seconds=chance.choice([0.05, 0.3])), (1, 8)
    ),
    "sqs-slow": weather("sqs", "sqs-slow", lambda chance: Weather(slow_seconds=chance.choice([0.1, 2.0])), (1, 10)),
    "redis-flushed": flushed,
    "wake-ups-lost": emptied,
    "messages-doubled": anomaly("messages-doubled", "twice", 0.4),
    "messages-redelivered": anomaly("messages-redelivered", "again", 0.3),
    "deletes-without-effect": anomaly("deletes-without-effect", "undeleted", 0.3),
    "deleted-messages-return": anomaly("deleted-messages-return", "returns", 0.3),
    "messages-vanish": anomaly("messages-vanish", "vanishes", 0.3),
    "batch-entries-refused": anomaly("batch-entries-refused", "refuses", 0.3),
    "sqs-throttled": anomaly("sqs-throttled", "throttles", 0.5),
    "messages-out-of-order": anomaly("messages-out-of-order", "disorder", 1.0),
}
