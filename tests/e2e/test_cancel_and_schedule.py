"""Cancel, schedule and remember."""

from datetime import UTC, datetime, timedelta

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from turnstile.statements.cancel import cancel
from turnstile.turn.cancel_reason import CancelReason


async def test_a_pending_turn_is_cancelled_at_once_and_never_runs(product: Product, start_worker: StartWorker) -> None:
    first, second = await product.submit({"do": "echo"}, {"do": "echo"}, send=False)

    await cancel(product.database, "t", second, CancelReason.USER)
    await product.send(("s", first))
    start_worker()

    await product.ended()
    assert (await product.row(second))["status"] == "CANCELED"
    assert [row["turn_id"] for row in await product.evidence()] == [first]


async def test_a_running_turn_is_cancelled_cooperatively(product: Product, start_worker: StartWorker) -> None:
    start_worker()
    [turn] = await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)

    await cancel(product.database, "t", turn, CancelReason.USER)

    await product.status_is(turn, "CANCELED")
    await until(lambda: product.evidence("cancelled"))
    assert (await product.row(turn))["cancel_reason"] == "user"


async def test_a_running_plain_function_sees_its_cancellation(product: Product, start_worker: StartWorker) -> None:
    start_worker(TURNSTILE_HANDLER="tests.e2e.handlers:act_in_thread")
    [turn] = await product.submit("hello")
    await product.status_is(turn, "RUNNING")

    await cancel(product.database, "t", turn, CancelReason.USER)

    await product.status_is(turn, "CANCELED")
    await until(lambda: product.evidence("saw its cancellation"))


async def test_cancelling_the_head_in_backoff_starts_the_next_turn_at_once(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(TURNSTILE_RETRY_BASE_SECONDS="3600", TURNSTILE_RETRY_CAP_SECONDS="3600")
    head, following = await product.submit({"do": "fail"}, {"do": "echo"}, expires_in_seconds=10_000)

    async def waits() -> bool:
        row = await product.row(head)
        return row["status"] == "PENDING" and row["failures"] == 1

    await until(waits)

    await cancel(product.database, "t", head, CancelReason.USER)

    await product.status_is(following, "SUCCEEDED", within=4.0)


async def test_a_scheduled_turn_is_not_early_and_holds_up_nobody(product: Product, start_worker: StartWorker) -> None:
    start_worker()
    due = datetime.now(UTC) + timedelta(seconds=2)
    [scheduled] = await product.submit({"do": "echo"}, execute_at=due)
    [immediate] = await product.submit({"do": "echo"})

    await product.ended()

    [began] = [row for row in await product.evidence() if row["turn_id"] == scheduled]
    assert began["at"] >= due
    assert (await product.row(scheduled))["seq"] == 2
    assert (await product.row(immediate))["finished_at"] < began["at"]


async def test_the_history_is_what_was_answered_before_and_the_input(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker()
    asks = {"do": "history", "limit": 4}

    await product.submit("one", {"do": "bug"}, "two", asks)

    await product.ended()
    [reply] = await product.fetch(
        "SELECT m.content FROM messages m JOIN turns t ON t.id = m.turn_id WHERE t.seq = 4 AND m.role = 'assistant'"
    )
    assert reply["content"] == ["one", "two", "two", asks]
