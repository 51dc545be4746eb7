"""After a kill: every lost turn begins again in time, and only the turn that kills its workers ends for it."""

from datetime import datetime
from uuid import UUID

import pytest

from tests.conftest import LEASE_SECONDS
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until

PROMISED_SECONDS = LEASE_SECONDS + 5


async def begun(product: Product, *turns: UUID) -> list[datetime]:
    """When each of them began last."""
    last = {row["turn_id"]: row["at"] for row in await product.evidence()}
    return [last[turn] for turn in turns if turn in last]


async def test_all_turns_of_a_killed_worker_begin_again_in_time(product: Product, start_worker: StartWorker) -> None:
    victim = start_worker()
    turns = [(await product.submit({"do": "sleep", "seconds": 2}, session=f"s{n}"))[0] for n in range(8)]

    async def all_begun() -> bool:
        return len(await begun(product, *turns)) == len(turns)

    await until(all_begun)
    survivor = start_worker()

    victim.kill()
    [killed] = await product.fetch("SELECT clock_timestamp() AS at")

    async def all_begun_again() -> bool:
        return all(at > killed["at"] for at in await begun(product, *turns))

    await until(all_begun_again)
    waits = [(at - killed["at"]).total_seconds() for at in await begun(product, *turns)]
    assert max(waits) < PROMISED_SECONDS
    await product.all_in("SUCCEEDED")
    assert {(row["attempt"], row["crashes"]) for row in await product.rows()} == {(2, 1)}
    released = await product.fetch("SELECT 1 FROM turn_attempts WHERE outcome = 'released'")
    assert released == [], "no claim is handed back"
    [lost] = survivor.said("worker.lost")
    taken_over = survivor.said("turn.taken_over")
    assert (lost["level"], lost["turns"]) == ("warning", len(turns))
    assert {line["turn_id"] for line in taken_over} == {str(turn) for turn in turns}
    assert {(line["level"], line["crashes"], line["lost_worker"]) for line in taken_over} == {
        ("warning", 1, lost["lost_worker"])
    }
    await product.check_sessions()


# Longer than the promise, so that the return of the lost turn's own message does not keep it.
@pytest.mark.parametrize("visibility_seconds", [60.0])
async def test_a_lost_turn_does_not_wait_behind_the_backlog(product: Product, start_worker: StartWorker) -> None:
    victim = start_worker(TURNSTILE_CONCURRENCY="1", TURNSTILE_RELAY="false")
    [lost] = await product.submit({"do": "sleep", "seconds": 60}, session="lost")
    await until(product.evidence)
    for n in range(60):
        await product.submit({"do": "sleep", "seconds": 1}, session=f"s{n}")
    start_worker(TURNSTILE_CONCURRENCY="2")

    victim.kill()
    [killed] = await product.fetch("SELECT clock_timestamp() AS at")

    async def begun_again() -> datetime | None:
        [at] = await begun(product, lost)
        return at if at > killed["at"] else None

    again = await until(begun_again)
    assert (again - killed["at"]).total_seconds() < PROMISED_SECONDS
    assert len(await product.rows("status = 'PENDING'")) > 10, "the backlog is still there"


async def test_a_turn_that_kills_its_workers_ends_at_its_budget_and_its_neighbours_do_not(
    product: Product, start_worker: StartWorker
) -> None:
    killers = [(await product.submit({"do": "die"}, session=f"poison{n}"))[0] for n in range(2)]
    innocents = [(await product.submit({"do": "sleep", "seconds": 0.5}, session=f"s{n}"))[0] for n in range(6)]
    workers = [start_worker(), start_worker()]

    async def killers_have_ended() -> bool:
        for place, worker in enumerate(workers):
            if worker.exit_code is not None:
                workers[place] = start_worker()
        return all([(await product.row(turn))["status"] == "FAILED" for turn in killers])

    await until(killers_have_ended, within=120.0)
    for turn in innocents:
        await product.status_is(turn, "SUCCEEDED")
    ended = [await product.row(turn) for turn in killers]
    assert [(row["error_class"], row["crashes"]) for row in ended] == [("crash_loop", 3)] * 2
    await product.check_sessions()
