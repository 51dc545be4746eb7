"""A turn that finally fails is compensated once, by a turn that anybody can see."""

from typing import Any
from uuid import UUID

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from turnstile.statements.redrive import revive
from turnstile.turn.identifiers import start_trace

HANDLER = {"TURNSTILE_HANDLER": "tests.e2e.family_handlers:act_or_undo"}


async def compensations(product: Product, failed: UUID) -> list[dict[str, Any]]:
    return await product.fetch(
        f"SELECT * FROM turns WHERE parent_turn_id = '{failed}' AND kind = 'compensation' ORDER BY created_at"
    )


async def reply_of(product: Product, turn: UUID) -> Any:
    [said] = await product.fetch(f"SELECT content FROM messages WHERE turn_id = '{turn}' AND role = 'assistant'")
    return said["content"]


async def test_a_failed_turn_is_compensated_with_all_that_is_known_of_it(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    order = {"do": "charge", "then": "bug"}

    [turn] = await product.submit(order, metadata={"tier": "gold"})

    await product.status_is(turn, "FAILED")
    [undone] = await compensations(product, turn)
    await product.status_is(undone["id"], "SUCCEEDED")
    failed = await product.row(turn)
    assert await reply_of(product, undone["id"]) == {
        "turn_id": str(turn),
        "session_id": "s",
        "generation": 1,
        "error_class": "ValueError",
        "error": "not worth a retry",
        "inputs": [order],
        "values": {"charge": f"receipt of fence {failed['fence']}"},
    }
    assert (undone["trace_id"], undone["parent_span_id"]) == (failed["trace_id"], failed["span_id"])
    assert (undone["session_id"], undone["metadata"]) == (f"compensation:{undone['id']}", {"tier": "gold"})


async def test_a_turn_that_succeeds_or_is_tried_again_has_no_compensation(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "charge", "then": "retry"})

    await product.status_is(turn, "SUCCEEDED")
    assert await compensations(product, turn) == []


async def test_a_compensation_has_its_own_retries(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "bug", "undo": "retry"}, max_attempts=1)

    await product.ended()
    [undone] = await compensations(product, turn)
    assert (undone["status"], undone["attempt"]) == ("SUCCEEDED", 2)
    assert len(await product.evidence("undone")) == 2


async def test_a_compensation_that_fails_is_dead_lettered_and_not_compensated(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "bug", "undo": "bug"})

    await product.ended()
    [undone] = await compensations(product, turn)

    async def dead_lettered() -> bool:
        return (await product.row(undone["id"]))["dead_lettered_at"] is not None

    await until(dead_lettered)
    assert undone["status"] == "FAILED"
    assert len(await product.rows()) == 2


async def test_a_redriven_turn_that_fails_again_is_compensated_again(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    [turn] = await product.submit({"do": "bug"})
    await product.ended()

    await revive(product.database, [(turn, 1)], [start_trace(7)], expires_in_seconds=[60.0], net_seconds=0.01)

    async def compensated_twice() -> bool:
        return len(await compensations(product, turn)) == 2

    await until(compensated_twice)
    await product.ended()
    assert [(await reply_of(product, one["id"]))["generation"] for one in await compensations(product, turn)] == [1, 2]


async def test_without_on_failed_there_is_none(product: Product, start_worker: StartWorker) -> None:
    start_worker(TURNSTILE_HANDLER="tests.e2e.family_handlers:act")

    [turn] = await product.submit({"do": "bug"})

    await product.status_is(turn, "FAILED")
    assert await compensations(product, turn) == []


@pytest.mark.parametrize("fifo", [True])
async def test_a_failed_child_is_compensated_and_its_parent_too(
    product: Product, start_worker: StartWorker, fifo: bool
) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": [{"do": "bug"}]})

    await product.status_is(parent, "FAILED")
    await product.ended()
    [child] = await product.rows(f"parent_turn_id = '{parent}' AND kind = 'turn'")
    assert len(await compensations(product, child["id"])) == len(await compensations(product, parent)) == 1
