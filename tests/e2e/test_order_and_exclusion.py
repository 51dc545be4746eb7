"""One turn at a time per session, in order, each answered once, with many workers on both kinds of queue."""

import asyncio
import itertools

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from turnstile.config.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Long leases: no worker dies here, and a busy machine must not look like a crash."""
    unhurried = tuple(queue.model_copy(update={"visibility_seconds": 30.0}) for queue in settings.queues)
    return settings.model_copy(update={"lease_seconds": 20.0, "resend_seconds": 30.0, "queues": unhurried})


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_many_workers_keep_the_order_of_every_session(product: Product, start_worker: StartWorker) -> None:
    for _ in range(4):
        start_worker(TURNSTILE_CONCURRENCY="4")

    async def talk(session: str) -> None:
        for n in range(6):
            await product.submit({"do": "sleep", "seconds": 0.01 * (n % 3)}, session=session)

    await asyncio.gather(*(talk(f"s{n}") for n in range(8)))

    await product.ended(within=60)
    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}
    begun, ended = await product.evidence("began"), await product.evidence("ended")
    assert len(begun) == 48
    for session in {row["session_id"] for row in begun}:
        mine = [row for row in begun if row["session_id"] == session]
        assert [row["seq"] for row in mine] == [1, 2, 3, 4, 5, 6]
        ends = [row["at"] for row in ended if row["session_id"] == session]
        assert all(next_began["at"] >= end for end, next_began in zip(ends, mine[1:], strict=False))
    await product.check_sessions()


async def test_a_burst_in_one_session_drains_without_a_pause(product: Product, start_worker: StartWorker) -> None:
    for _ in range(2):
        # With one slot a session run ends after 10 turns, and the other worker may take the session.
        start_worker(TURNSTILE_SESSION_RUN_TURNS="10", TURNSTILE_CONCURRENCY="1")

    await product.submit(*[{"do": "echo"}] * 25)

    await product.ended(within=60)
    rows = await product.rows()
    pauses = [
        (later["finished_at"] - before["finished_at"]).total_seconds() for before, later in itertools.pairwise(rows)
    ]
    # A lost hand-over would wait for the resend deadline.
    assert max(pauses) < product.settings.resend_seconds - 1
    await product.check_sessions()
