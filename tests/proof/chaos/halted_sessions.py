"""The operator of a halting queue: retries or skips what has failed, by the product's own commands."""

import asyncio

import psycopg

from tests.proof.chaos.kinds.scene import Scene
from tests.proof.chaos.supervisor import pause

LOOK_EVERY_SECONDS = 0.3
AT_A_TIME = 4
RETRIES = 0.3
"""The share of turns that are run again when they halt their session for the first time; most of them halt it once more."""

HALTING = """
SELECT t.id::text, t.generation FROM sessions s JOIN turns t ON t.id = s.halted_by
 WHERE t.status = 'FAILED' ORDER BY t.finished_at LIMIT %s
"""


async def let_sessions_go_on(scene: Scene, rested: asyncio.Event) -> None:
    """Decides about whatever is halted, until `rested`. Two decisions about one turn meet now and then, on purpose."""
    environment = await scene.servers.variables("operator")

    async def decide(turn_id: str, generation: int) -> None:
        way = "retry" if generation == 1 and scene.rng.random() < RETRIES else "skip"
        visits = [await scene.processes.run([way, turn_id, "--yes"], environment)]
        if scene.rng.random() < 0.1:
            visits.append(await scene.processes.run(["skip", turn_id, "--yes"], environment))
        for visit in visits:
            await visit.exited

    while not await pause(LOOK_EVERY_SECONDS, rested):
        found = await asyncio.to_thread(_halting, scene)
        await asyncio.gather(*(decide(*one) for one in found))


def _halting(scene: Scene) -> list[tuple[str, int]]:
    try:
        with psycopg.connect(scene.servers.admin_url) as connection:
            return connection.execute(HALTING, [AT_A_TIME]).fetchall()
    except psycopg.OperationalError:
        # Restarted just now; it is asked again.
        return []
