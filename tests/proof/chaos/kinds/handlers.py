"""Faults that come from inside: handlers that kill, block or ignore, and replies that can't be stored."""

from uuid import UUID

from tests.proof.chaos.kinds.scene import Kind, Scene
from tests.proof.chaos.scaled_settings import MAX_CRASHES, WATCHDOG_SECONDS


async def poison(scene: Scene) -> str | None:
    """A turn that kills every worker that answers it."""
    return await scene.submit({"do": "die", "times": 1000})


async def die_once(scene: Scene) -> str | None:
    """A turn that kills its worker, and then behaves."""
    return await scene.submit({"do": "die", "times": scene.rng.randint(1, MAX_CRASHES - 1)})


async def block(scene: Scene) -> str | None:
    """A handler that blocks the event loop for longer than a lease, now and then for longer than the watchdog allows."""
    seconds = scene.rng.choice([1.0, 2.5, 2.5, WATCHDOG_SECONDS + 3])
    return await scene.submit({"do": "block", "seconds": seconds}, max_attempts=2)


async def deaf(scene: Scene) -> str | None:
    """A handler that ignores its cancellation, beyond its deadline and its grace."""
    return await scene.submit({"do": "deaf", "seconds": scene.rng.uniform(6.5, 10)}, max_attempts=2)


async def refused(scene: Scene) -> str | None:
    return await scene.submit({"do": scene.rng.choice(["nul", "unfit"])})


async def malformed(scene: Scene) -> str | None:
    """Something on the queue that is none of our messages."""
    body = scene.rng.choice(["not json", "{}", '{"v":99}', '{"v":1,"tenant_id":"alpha"}', "[]", "x" * 2000])
    await scene.inject(f"{body} {scene.rng.getrandbits(40):x}" if body == "not json" else body)
    return body[:20]


async def phantom(scene: Scene) -> str | None:
    """A well-formed message of a turn that does not exist."""
    session = f"phantom-{scene.rng.getrandbits(40):x}"
    turn = UUID(int=scene.rng.getrandbits(128), version=4)
    await scene.inject(f'{{"v":1,"tenant_id":"alpha","session_id":"{session}","turn_id":"{turn}"}}')
    return session


KINDS = (
    Kind("poison-pill", poison, lingers=30.0),
    Kind("handler-kills-its-worker", die_once, lingers=20.0),
    Kind("event-loop-blocked", block, lingers=20.0),
    Kind("deaf-handler", deaf, lingers=20.0),
    Kind("reply-refused", refused),
    Kind("malformed-message", malformed),
    Kind("phantom-message", phantom),
)
