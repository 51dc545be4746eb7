"""The archive runs while workers answer, with a cut-off of half a second, shorter than any operator could set."""

import asyncio
from collections import Counter
from uuid import UUID

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.archive.move import Archived, archive_sessions, read_cutoff
from turnstile.backends.postgres.database import Database

SESSIONS = 6
ROUNDS = 2
TURNS = 3
"""In each round of a session."""


async def test_turns_that_are_archived_while_workers_answer_are_kept_once_and_in_order(
    product: Product, start_worker: StartWorker
) -> None:
    for _ in range(3):
        start_worker(TURNSTILE_CONCURRENCY="8")
    submitted: list[UUID] = []
    moved: list[Archived] = []
    submitting = asyncio.Event()
    submitting.set()

    async def archive_repeatedly() -> None:
        # A pool of its own, as the command has it.
        async with Database(product.settings.database, "archive", size=2, pinned=True) as database:
            while submitting.is_set():
                cutoff = await read_cutoff(database, 0.5)
                moved.extend([step async for step in archive_sessions(database, cutoff, batch=10, pause_seconds=0)])

    async def gone(session: str) -> bool:
        return not await product.rows(f"session_id = '{session}'")

    async def submit_rounds(session: str) -> None:
        for _ in range(ROUNDS):
            submitted.extend(await product.submit(*[{"do": "echo"}] * TURNS, session=session))
            # The next round meets a session whose turns have just been moved, or are being moved.
            await until(lambda: gone(session), within=120, every=0.1)

    archives = [asyncio.create_task(archive_repeatedly()) for _ in range(2)]
    await asyncio.gather(*(submit_rounds(f"s{number}") for number in range(SESSIONS)))
    submitting.clear()
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
