"""A turn that finally fails is compensated by a turn of its own."""

from typing import Any
from uuid import UUID

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.statements.revive import revive
from turnstile.turn.identifiers import start_trace

HANDLER = {"TURNSTILE_HANDLER": "tests.e2e.family_handlers:act_or_undo"}


async def compensations(product: Product, failed: UUID) -> list[dict[str, Any]]:
    return await product.fetch(
        f"SELECT * FROM turns WHERE parent_turn_id = '{failed}' AND kind = 'compensation' ORDER BY created_at"
    )


async def test_a_compensation_gets_the_inputs_the_error_and_the_recorded_values_of_the_failed_turn(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    order = {"do": "charge", "then": "bug"}

    [turn] = await product.submit(order, metadata={"tier": "gold"})

    await product.status_is(turn, "FAILED")
    [undone] = await compensations(product, turn)
    await product.status_is(undone["id"], "SUCCEEDED")
    failed = await product.row(turn)
    assert await product.reply_of(undone["id"]) == {
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


async def test_a_redriven_turn_that_fails_again_gets_a_second_compensation(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    [turn] = await product.submit({"do": "bug"})
    await product.ended()

    await revive(product.database, [(turn, 1)], [start_trace(7)], expires_in_seconds=[60.0], resend_seconds=0.01)

    async def compensated_twice() -> bool:
        return len(await compensations(product, turn)) == 2

    await until(compensated_twice)
    await product.ended()
    assert [(await product.reply_of(one["id"]))["generation"] for one in await compensations(product, turn)] == [1, 2]
