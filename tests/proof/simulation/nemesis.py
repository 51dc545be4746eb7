"""The nemesis: from the seed, what strikes when, and for how long."""

from random import Random

from tests.proof.simulation import kinds_of_processes, kinds_of_services
from tests.proof.simulation.seeded_run import World

KINDS = {**kinds_of_processes.KINDS, **kinds_of_services.KINDS}


async def nemesis(world: World) -> None:
    """Strikes with the kinds of the plan until the healing."""
    plan = world.plan
    if not plan.kinds:
        return
    chance = Random(f"nemesis {plan.seed}")
    times = sorted(chance.uniform(1.0, plan.faulty_seconds - 0.5) for _ in range(plan.strikes))
    for at in [world.loop.now + after for after in times]:
        await world.loop.pause(max(0.0, at - world.loop.now))
        if world.healed:
            return
        kind = chance.choice(plan.kinds)
        for blow in KINDS[kind](world, chance):
            world.note_fault(kind, blow)
