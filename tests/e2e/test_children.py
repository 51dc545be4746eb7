"""Fan-out and fan-in through real workers: nothing is held while the children work, and nothing is done twice."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.statements.cancel import CancelReason, cancel

HANDLER = {"TURNSTILE_HANDLER": "tests.e2e.family_handlers:act"}
ONE_SLOT = {**HANDLER, "TURNSTILE_CONCURRENCY": "1"}


def echo(*said: str) -> list[dict[str, Any]]:
    return [{"do": "echo", "say": one} for one in said]


async def children_of(product: Product, parent: UUID) -> list[dict[str, Any]]:
    return await product.fetch(f"SELECT * FROM turns WHERE parent_turn_id = '{parent}' ORDER BY created_at, child_key")


async def reply_of(product: Product, turn: UUID) -> Any:
    [said] = await product.fetch(f"SELECT content FROM messages WHERE turn_id = '{turn}' AND role = 'assistant'")
    return said["content"]


async def joins(product: Product, turn: UUID) -> list[dict[str, Any]]:
    return await product.fetch(f"SELECT * FROM turn_attempts WHERE turn_id = '{turn}' AND outcome = 'joined'")


async def test_a_parent_gets_the_replies_of_its_children_in_their_order(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b", "c")})

    await product.status_is(parent, "SUCCEEDED")
    assert await reply_of(product, parent) == ["a", "b", "c"]
    await product.check_sessions()


async def test_one_slot_is_enough_for_a_parent_and_its_children(product: Product, start_worker: StartWorker) -> None:
    start_worker(**ONE_SLOT)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b")})

    await product.status_is(parent, "SUCCEEDED")


async def test_a_child_stands_under_its_parent_with_its_parents_trace(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a")})

    await product.status_is(parent, "SUCCEEDED")
    [child], row = await children_of(product, parent), await product.row(parent)
    assert (child["trace_id"], child["parent_span_id"]) == (row["trace_id"], row["span_id"])
    assert (child["session_id"], child["child_key"]) == (f"child:{child['id']}", "#1")


async def test_a_join_charges_no_attempt_and_is_recorded(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b")}, max_attempts=1)

    await product.status_is(parent, "SUCCEEDED")
    row = await product.row(parent)
    assert (row["attempt"], row["failures"], row["crashes"]) == (1, 0, 0)
    assert (row["joining"], row["join_policy"]) == (None, None)
    assert len(await joins(product, parent)) >= 1


async def test_a_waiting_parent_holds_up_its_session_and_no_slot(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**ONE_SLOT)
    gate = tmp_path / "open"
    parent, behind = await product.submit(
        {"do": "fan out", "orders": [{"do": "wait", "until": str(gate)}]}, {"do": "echo"}
    )

    async def waits() -> bool:
        return (await product.row(parent))["joining"] is not None

    await until(waits)
    [elsewhere] = await product.submit({"do": "echo"}, session="elsewhere")
    await product.status_is(elsewhere, "SUCCEEDED")
    assert (await product.row(behind))["status"] == "PENDING"
    gate.touch()
    await product.ended()
    await product.check_sessions()


async def test_a_parent_that_is_killed_after_its_submits_finds_its_children(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b", "c"), "then": "die"})

    await product.status_is(parent, "SUCCEEDED")
    assert await reply_of(product, parent) == ["a", "b", "c"]
    assert len(await children_of(product, parent)) == 3
    await product.check_sessions()


async def test_a_failed_child_fails_its_parent(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": [*echo("a"), {"do": "bug"}]})

    await product.status_is(parent, "FAILED")
    assert (await product.row(parent))["error_class"] == "ChildFailedError"


async def test_all_does_not_wait_for_the_others_once_one_has_failed(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}

    [parent] = await product.submit({"do": "fan out", "orders": [never, {"do": "bug"}], "catch": True})

    await product.status_is(parent, "SUCCEEDED")
    assert await reply_of(product, parent) == {"failed": "#2", "status": "FAILED", "error_class": "ValueError"}


async def test_any_is_content_with_one_and_knows_nothing_of_the_others(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}

    [parent] = await product.submit({"do": "fan out", "policy": "any", "orders": [never, {"do": "bug"}, *echo("c")]})

    await product.status_is(parent, "SUCCEEDED")
    assert await reply_of(product, parent) == [None, None, "c"]


async def test_any_fails_when_all_have_failed(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "policy": "any", "orders": [{"do": "bug"}, {"do": "bug"}]})

    await product.status_is(parent, "FAILED")
    assert (await product.row(parent))["error_class"] == "ChildFailedError"


async def test_a_child_that_is_cancelled_while_it_waits_wakes_its_parent(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}
    [parent] = await product.submit({"do": "fan out", "orders": [never], "catch": True})

    async def waits() -> bool:
        return (await product.row(parent))["joining"] is not None

    await until(waits)
    [child] = await children_of(product, parent)
    await cancel(product.database, "t", child["id"], CancelReason.USER)

    await product.status_is(parent, "SUCCEEDED")
    assert await reply_of(product, parent) == {"failed": "#1", "status": "CANCELED", "error_class": None}


async def test_a_parent_whose_children_do_not_end_expires(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}

    [parent] = await product.submit({"do": "fan out", "orders": [never]}, expires_in_seconds=1.5)

    await product.status_is(parent, "FAILED")
    row = await product.row(parent)
    assert (row["error_class"], row["attempt"]) == ("expired", 1)
    assert row["joining"] is None


async def test_children_need_no_redis(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    start_worker(**HANDLER)
    await asyncio.to_thread(stack.redis.stop)
    try:
        [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b", "c")})
        await product.status_is(parent, "SUCCEEDED")
    finally:
        await asyncio.to_thread(stack.redis.start)


async def test_an_effect_is_not_repeated_by_a_retry(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "charge", "then": "retry"})

    await product.status_is(turn, "SUCCEEDED")
    [first, _] = await product.evidence("began")
    assert len(await product.evidence("charged")) == 1
    assert await reply_of(product, turn) == f"receipt of fence {first['fence']}"


async def test_an_effect_is_not_repeated_after_the_death_of_its_worker(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "charge", "then": "die"})

    await product.status_is(turn, "SUCCEEDED")
    assert len(await product.evidence("began")) == 2
    assert len(await product.evidence("charged")) == 1
