"""SIGTERM: turns finish within the grace or are handed back, and no attempt is charged for it."""

import signal

import psycopg
import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.support.probes import until
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.turn.limits import MAX_HAND_BACKS

RARE = {"TURNSTILE_HEARTBEAT_SECONDS": "45", "TURNSTILE_LEASE_SECONDS": "60", "TURNSTILE_WATCHDOG_SECONDS": "100"}
"""Heartbeats that are further apart than a test waits."""


@pytest.fixture
def visibility_seconds() -> float:
    return 120.0


async def test_a_turn_that_ends_within_the_grace_is_answered(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="10")
    [turn] = await product.submit({"do": "sleep", "seconds": 0.7})
    await until(product.evidence)

    worker.signal(signal.SIGTERM)

    await until(lambda: worker.exit_code is not None)
    assert worker.exit_code == 0
    assert (await product.row(turn))["status"] == "SUCCEEDED"


async def test_a_turn_that_does_not_end_within_the_grace_is_handed_back_without_an_attempt(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="1")
    [turn] = await product.submit({"do": "sleep", "seconds": 30})
    await until(product.evidence)

    worker.signal(signal.SIGTERM)
    await until(lambda: worker.exit_code is not None)

    row = await product.row(turn)
    assert (row["status"], row["attempt"], row["failures"], row["crashes"]) == ("PENDING", 0, 0, 0)
    [due] = await product.fetch("SELECT send_at <= clock_timestamp() + interval '16 s' AS soon FROM turns")
    assert due["soon"]
    assert _handing_back_took(worker) < 2.0


async def test_operators_see_at_once_that_a_worker_stops(product: Product, start_worker: StartWorker) -> None:
    """However far its heartbeats are apart."""
    worker = start_worker(TURNSTILE_GRACE_SECONDS="600", **RARE)
    await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)

    worker.signal(signal.SIGTERM)

    await until(lambda: product.fetch("SELECT FROM workers WHERE draining"))


async def test_a_second_sigterm_hands_back_at_once(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="600")
    await product.submit({"do": "sleep", "seconds": 30})
    await until(product.evidence)
    worker.signal(signal.SIGTERM)
    await until(lambda: worker.said("shutdown.draining"))

    worker.signal(signal.SIGTERM)

    await until(lambda: worker.exit_code is not None)
    assert [row["status"] for row in await product.rows()] == ["PENDING"]


async def test_a_turn_that_every_shutdown_stops_ends(product: Product, start_worker: StartWorker) -> None:
    [turn] = await product.submit({"do": "sleep", "seconds": 30}, send=False)
    await product.fetch_nothing("UPDATE turns SET first_started_at = clock_timestamp()")
    await product.fetch_nothing(
        "INSERT INTO turn_attempts (turn_id, attempt, fence, generation, outcome)"
        f" SELECT id, 1, -n, 1, 'released' FROM turns, generate_series(2, {MAX_HAND_BACKS}) n"
    )
    worker = start_worker(TURNSTILE_GRACE_SECONDS="0.1")
    await product.send(("s", turn))
    await until(product.evidence)

    worker.signal(signal.SIGTERM)
    await until(lambda: worker.exit_code is not None)

    row = await product.row(turn)
    assert (row["status"], row["error_class"]) == ("FAILED", "shutdown_loop")


@pytest.mark.skipif(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="this run was started by nohup")
@pytest.mark.parametrize(
    ("command", "began"), [("worker", "worker.started"), ("relay", "relay.started"), ("api", "api.listening")]
)
async def test_a_terminal_that_closes_stops_a_process_in_order(
    start_worker: StartWorker, command: str, began: str
) -> None:
    process = start_worker(command, TURNSTILE_API_KEYS="t:key-of-tenant-t", TURNSTILE_API_PORT="0")
    await until(lambda: process.said(began))

    process.signal(signal.SIGHUP)

    await until(lambda: process.exit_code is not None)
    assert process.exit_code == 0
    assert process.said(f"{command}.stopped")


async def test_a_handler_that_ignores_its_cancellation_does_not_delay_the_exit(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="0.2", TURNSTILE_CANCEL_GRACE_SECONDS="5")
    [turn] = await product.submit({"do": "deaf", "seconds": 6})
    await until(product.evidence)

    worker.signal(signal.SIGTERM)
    await until(lambda: worker.exit_code is not None)

    row = await product.row(turn)
    assert (row["status"], row["attempt"], row["failures"], row["crashes"]) == ("PENDING", 0, 0, 0)
    assert _handing_back_took(worker) < 2.0


async def test_a_turn_that_can_not_be_handed_back_is_an_error_line_and_an_exit_code(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="0.2")
    [turn] = await product.submit({"do": "sleep", "seconds": 30})
    await until(product.evidence)

    async with await psycopg.AsyncConnection.connect(product.settings.database_url) as other:
        await other.execute("SELECT FROM turns FOR NO KEY UPDATE")
        worker.signal(signal.SIGTERM)
        await until(lambda: worker.exit_code is not None)

    [line] = worker.said("settle.given_up")
    assert (line["level"], line["turn_id"], worker.exit_code) == ("error", str(turn), ExitCode.UNAVAILABLE)


async def test_a_claim_without_an_answer_at_the_end_is_a_warning_and_an_exit_code(
    product: Product, start_worker: StartWorker
) -> None:
    """Its COMMIT may still land: the turn is then RUNNING, and counts a crash."""
    worker = start_worker(TURNSTILE_GRACE_SECONDS="0.2")
    [turn] = await product.submit({"do": "sleep", "seconds": 30}, send=False)
    # A worker receives nothing before it has read, with its first heartbeat, whether its queue is paused.
    await until(lambda: product.fetch("SELECT FROM workers"))

    async with await psycopg.AsyncConnection.connect(product.settings.database_url) as other:
        await other.execute("LOCK TABLE turns")
        await product.send(("s", turn))
        await until(lambda: worker.said("database.row_locked") or worker.said("database.away"))
        worker.signal(signal.SIGTERM)
        await until(lambda: worker.exit_code is not None)

    [line] = worker.said("claim.given_up")
    assert (line["level"], line["session_id"], worker.exit_code) == ("warning", "s", ExitCode.UNAVAILABLE)


def _handing_back_took(worker: WorkerProcess) -> float:
    handing, stopped = worker.said("shutdown.handing_back")[0], worker.said("worker.stopped")[0]
    return _seconds(stopped["timestamp"]) - _seconds(handing["timestamp"])


def _seconds(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp).timestamp()
