"""The archive at work under the feet of real workers, with a cut-off that no operator could give: half a second."""

import asyncio
from collections import Counter
from uuid import UUID

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from turnstile.archive.move import Archived, archive_sessions, read_cutoff
from turnstile.backends.postgres.database import Database

SESSIONS = 40
ROUNDS = 3
TURNS = 3
"""In each round of a session."""


async def test_what_is_archived_while_workers_answer_is_lost_to_nobody(
    product: Product, start_worker: StartWorker
) -> None:
    for _ in range(3):
        start_worker(TURNSTILE_CONCURRENCY="8")
    submitted: list[UUID] = []
    moved: list[Archived] = []
    talking = asyncio.Event()
    talking.set()

    async def archive_on_and_on() -> None:
        # A pool of its own, as the command has it.
        async with Database(product.settings.database_url, "archive", size=2, pinned=True) as database:
            while talking.is_set():
                cutoff = await read_cutoff(database, 0.5)
                moved.extend([step async for step in archive_sessions(database, cutoff, batch=10, pause_seconds=0)])

    async def gone(session: str) -> bool:
        return not await product.rows(f"session_id = '{session}'")

    async def talk(session: str) -> None:
        for _ in range(ROUNDS):
            submitted.extend(await product.submit(*[{"do": "echo"}] * TURNS, session=session))
            # Whoever comes back does so to a session whose turns have just gone, or are going this moment.
            await until(lambda: gone(session), within=120, every=0.5)

    archives = [asyncio.create_task(archive_on_and_on()) for _ in range(2)]
    await asyncio.gather(*(talk(f"s{number}") for number in range(SESSIONS)))
    talking.clear()
    await asyncio.gather(*archives)

    assert await product.rows() == []
    archived = await product.fetch("SELECT id, session_id, turn FROM archived_turns")
    assert Counter(row["id"] for row in archived) == Counter(submitted)
    assert len(submitted) == SESSIONS * ROUNDS * TURNS
    assert {row["turn"]["status"] for row in archived} == {"SUCCEEDED"}
    assert sum(step.turns for step in moved) == len(submitted)
    # Each ran once, in its session's order, and the numbering went on where the archived turns had left it.
    begun = await product.evidence("began")
    assert Counter(row["turn_id"] for row in begun) == Counter(submitted)
    for session in {row["session_id"] for row in begun}:
        seqs = [row["seq"] for row in begun if row["session_id"] == session]
        assert seqs == list(range(1, ROUNDS * TURNS + 1))
        mine = sorted((row["turn"]["fence"], row["turn"]["seq"]) for row in archived if row["session_id"] == session)
        assert [seq for _, seq in mine] == seqs
    # Nothing that belongs to an archived turn is left behind.
    for table in ("messages", "turn_attempts", "turn_values", "webhooks"):
        assert await product.fetch(f"SELECT 1 FROM {table}") == [], table
    assert sum(step.skipped for step in moved) == 0
