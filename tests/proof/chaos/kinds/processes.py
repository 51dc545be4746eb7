"""Faults of the product's own processes: killed, frozen, stopped, restarted with another clock."""

import signal

from tests.proof.chaos.fork_server import CLOCK_SHIFT
from tests.proof.chaos.kinds.scene import Kind, Scene, Strike
from tests.proof.chaos.scaled_settings import LEASE_SECONDS, VISIBILITY_SECONDS

PAST_EVERY_TIMEOUT = (VISIBILITY_SECONDS + 0.5, VISIBILITY_SECONDS + 2 * LEASE_SECONDS)
HOUR = 3600.0


def kill(role: str) -> Strike:
    async def strike(scene: Scene) -> str | None:
        part = scene.some(role)
        return f"{part.name} {scene.processes.send(part.name, signal.SIGKILL)}"

    return strike


def freeze(role: str, least: float, most: float) -> Strike:
    """SIGSTOP, and SIGCONT after other processes have taken over its work."""

    async def strike(scene: Scene) -> str | None:
        part = scene.some(role)
        pid = scene.processes.send(part.name, signal.SIGSTOP)
        await scene.last(least, most)
        if part.pid == pid:
            scene.processes.send(part.name, signal.SIGCONT)
        return f"{part.name} {pid}"

    return strike


def stop(role: str, *, twice: bool = False) -> Strike:
    """SIGTERM, as by a deployment; with `twice` a second one, which ends the grace period."""

    async def strike(scene: Scene) -> str | None:
        part = scene.some(role)
        pid = scene.processes.send(part.name, signal.SIGTERM)
        if twice:
            await scene.last(0.05, 0.5)
            if part.pid == pid:
                scene.processes.send(part.name, signal.SIGTERM)
        return f"{part.name} {pid}"

    return strike


async def shift_clock(scene: Scene) -> str | None:
    """A worker whose machine's clock is an hour off, one way or the other, for the rest of its life."""
    part = scene.some("worker")
    shift = scene.rng.choice([-HOUR, HOUR])
    part.environment = {**part.environment, CLOCK_SHIFT: str(shift)}
    scene.processes.send(part.name, signal.SIGKILL)
    await scene.last(3, 8)
    part.environment = {**part.environment, CLOCK_SHIFT: "0"}
    return f"{part.name} {shift:+.0f} s"


async def kill_redrive(scene: Scene) -> str | None:
    redrive = await scene.redrive()
    await scene.last(0.02, 0.6)
    if redrive.exited.done():
        return None
    scene.processes.send_to(redrive.pid, signal.SIGKILL)
    return f"redrive {redrive.pid}"


async def redrive_twice(scene: Scene) -> str | None:
    one, other = await scene.redrive(), await scene.redrive()
    await one.exited
    await other.exited
    return f"redrives {one.pid} and {other.pid}"


KINDS = (
    Kind("worker-sigkill", kill("worker")),
    Kind("worker-frozen", freeze("worker", *PAST_EVERY_TIMEOUT)),
    Kind("worker-sigterm", stop("worker")),
    Kind("worker-sigterm-twice", stop("worker", twice=True)),
    Kind("worker-clock-shifted", shift_clock, group="worker-clock"),
    Kind("api-sigkill", kill("api")),
    Kind("api-frozen", freeze("api", 0.5, 3.0)),
    Kind("api-sigterm", stop("api")),
    Kind("relay-sigkill", kill("relay")),
    Kind("relay-frozen", freeze("relay", 2.5, 6.0)),
    Kind("redrive-sigkill", kill_redrive),
    Kind("two-redrives", redrive_twice),
)
