"""Fan-out and fan-in with real workers: a waiting parent occupies no slot, and no side effect is repeated."""

from pathlib import Path
from typing import Any
from uuid import UUID

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.statements.cancel import CancelReason, cancel

HANDLER = {"TURNSTILE_HANDLER": "tests.e2e.family_handlers:act"}
ONE_SLOT = {**HANDLER, "TURNSTILE_CONCURRENCY": "1"}


def echo(*said: str) -> list[dict[str, Any]]:
    return [{"do": "echo", "say": one} for one in said]


async def children_of(product: Product, parent: UUID) -> list[dict[str, Any]]:
    return await product.fetch(f"SELECT * FROM turns WHERE parent_turn_id = '{parent}' ORDER BY created_at, child_key")


async def test_a_waiting_parent_blocks_its_session_and_occupies_no_slot(
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


async def test_a_parent_whose_worker_is_killed_finds_the_children_it_has_started(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**HANDLER)
    start_worker(**HANDLER)

    [parent] = await product.submit({"do": "fan out", "orders": echo("a", "b", "c"), "then": "die"})

    await product.status_is(parent, "SUCCEEDED")
    assert await product.reply_of(parent) == ["a", "b", "c"]
    assert len(await children_of(product, parent)) == 3
    await product.check_sessions()


async def test_policy_any_needs_one_success_and_gives_none_for_the_others(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}

    [parent] = await product.submit({"do": "fan out", "policy": "any", "orders": [never, {"do": "bug"}, *echo("c")]})

    await product.status_is(parent, "SUCCEEDED")
    assert await product.reply_of(parent) == [None, None, "c"]


async def test_a_cancelled_child_wakes_its_parent(product: Product, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}
    [parent] = await product.submit({"do": "fan out", "orders": [never], "catch": True})

    async def waits() -> bool:
        return (await product.row(parent))["joining"] is not None

    await until(waits)
    [child] = await children_of(product, parent)
    await cancel(product.database, "t", child["id"], CancelReason.USER)

    await product.status_is(parent, "SUCCEEDED")
    assert await product.reply_of(parent) == {"failed": "#1", "status": "CANCELED", "error_class": None}


async def test_a_failed_child_stops_its_siblings_if_the_join_says_so(
    product: Product, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(**HANDLER)
    never = {"do": "wait", "until": str(tmp_path / "never")}

    [parent] = await product.submit(
        {"do": "fan out", "orders": [never, {"do": "bug"}], "on_failure": "cancel", "catch": True}
    )

    await product.status_is(parent, "SUCCEEDED")
    assert await product.reply_of(parent) == {"failed": "#2", "status": "FAILED", "error_class": "ValueError"}
    [waiting] = [child["id"] for child in await children_of(product, parent) if child["child_key"] == "#1"]
    await product.status_is(waiting, "CANCELED")
    assert (await product.row(waiting))["cancel_reason"] == "parent"


async def test_a_recorded_side_effect_is_not_repeated_after_a_kill(product: Product, start_worker: StartWorker) -> None:
    start_worker(**HANDLER)
    start_worker(**HANDLER)

    [turn] = await product.submit({"do": "charge", "then": "die"})

    await product.status_is(turn, "SUCCEEDED")
    assert len(await product.evidence("began")) == 2
    assert len(await product.evidence("charged")) == 1
