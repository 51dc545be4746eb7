"""One turn at a time per session, in order, each answered once: whatever the number of workers, on both kinds of queue."""

import asyncio
import itertools

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from turnstile.config.settings import Settings

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Nobody is lost here, and a machine that is short of cores must not make it look so."""
    unhurried = tuple(queue.model_copy(update={"visibility_seconds": 30.0}) for queue in settings.queues)
    return settings.model_copy(update={"lease_seconds": 20.0, "net_seconds": 30.0, "queues": unhurried})


@both_kinds
async def test_a_turn_goes_all_the_way(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    [turn] = await product.submit({"do": "echo", "say": "hi"})

    await product.status_is(turn, "SUCCEEDED")
    row = await product.row(turn)
    assert (row["attempt"], row["send_at"], row["lease_until"]) == (1, None, None)
    await until(lambda: worker.said("turn.succeeded"))
    await product.check_sessions()


@both_kinds
async def test_eight_workers_keep_the_order_of_every_session(product: Product, start_worker: StartWorker) -> None:
    for _ in range(8):
        start_worker(TURNSTILE_CONCURRENCY="4")

    async def talk(session: str) -> None:
        for n in range(6):
            await product.submit({"do": "sleep", "seconds": 0.01 * (n % 3)}, session=session)

    await asyncio.gather(*(talk(f"s{n}") for n in range(12)))

    await product.ended(within=60)
    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}
    begun, ended = await product.evidence("began"), await product.evidence("ended")
    assert len(begun) == 72
    for session in {row["session_id"] for row in begun}:
        mine = [row for row in begun if row["session_id"] == session]
        assert [row["seq"] for row in mine] == [1, 2, 3, 4, 5, 6]
        ends = [row["at"] for row in ended if row["session_id"] == session]
        assert all(next_began["at"] >= end for end, next_began in zip(ends, mine[1:], strict=False))
    await product.check_sessions()


@both_kinds
async def test_a_burst_in_one_session_drains_without_a_pause(product: Product, start_worker: StartWorker) -> None:
    for _ in range(2):
        # With one slot each hold ends after its turns, and the session goes from hand to hand.
        start_worker(TURNSTILE_SESSION_RUN_TURNS="20", TURNSTILE_CONCURRENCY="1")

    await product.submit(*[{"do": "echo"}] * 50)

    await product.ended(within=60)
    rows = await product.rows()
    pauses = [
        (later["finished_at"] - before["finished_at"]).total_seconds() for before, later in itertools.pairwise(rows)
    ]
    # Whoever is not told of the next turn waits for the net.
    assert max(pauses) < product.settings.net_seconds - 1
    await product.check_sessions()


@pytest.mark.parametrize(
    ("room", "longest"),
    [
        ({"TURNSTILE_CONCURRENCY": "1"}, 4),
        ({"TURNSTILE_CONCURRENCY": "2", "TURNSTILE_TENANT_SLOTS": "1"}, 4),
        ({"TURNSTILE_CONCURRENCY": "2"}, 10),
    ],
    ids=["the last slot", "the tenant's last slot", "a slot of several"],
)
async def test_a_session_is_given_back_after_its_turns_where_its_slot_is_wanted(
    product: Product, start_worker: StartWorker, room: dict[str, str], longest: int
) -> None:
    worker = start_worker(TURNSTILE_SESSION_RUN_TURNS="4", **room)
    turns = await product.submit(*[{"do": "echo"}] * 10, send=False)

    await product.send(("s", turns[0]))

    await product.ended()
    await until(lambda: sum(line["turns"] for line in worker.said("session.unlock")) == len(turns))
    assert max(line["turns"] for line in worker.said("session.unlock")) == longest


async def test_the_same_message_to_two_workers_is_one_answer(product: Product, start_worker: StartWorker) -> None:
    start_worker()
    start_worker()
    turns = await product.submit({"do": "sleep", "seconds": 0.3}, {"do": "echo"}, send=False)

    await product.send(*[("s", turns[0])] * 6)

    await product.ended()
    assert len(await product.evidence()) == 2
    await product.check_sessions()
