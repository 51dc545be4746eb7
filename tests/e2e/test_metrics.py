"""Worker, relay and API serve their metrics, each on a port of its own; with no port, nothing listens (G25, A4, L6)."""

from uuid import uuid4

import httpx
import psutil
import pytest

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.support.metric_readings import Scrape
from tests.support.probes import until
from tests.support.stacks.stack import Stack

KEY = "a-key-of-the-test"


async def port_of(process: WorkerProcess, event: str = "metrics.listening") -> int:
    [line, *_] = await until(lambda: process.said(event), within=60)
    return int(line["port"])


async def test_each_process_serves_what_it_does(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    queue = product.settings.queue
    api = start_worker("api", TURNSTILE_METRICS_PORT="0", TURNSTILE_API_PORT="0", TURNSTILE_API_KEYS=f"t:{KEY}")
    url = f"http://127.0.0.1:{await port_of(api, 'api.listening')}/v1/sessions/s/turns"
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, trust_env=False) as caller:
        for order in ({"do": "echo"}, {"do": "flaky", "times": 1}, {"do": "bug"}, {"do": "spend"}):
            assert (await caller.post(url, json={"input": order})).status_code == 202
    worker = start_worker(TURNSTILE_METRICS_PORT="0", TURNSTILE_RELAY="false")
    relay = start_worker("relay", TURNSTILE_METRICS_PORT="0")
    await product.ended(within=90)
    await product.send(("nobody", uuid4()))
    address = await product.queues.find(queue)
    sqs_client(stack).send_message(QueueUrl=address.url, MessageBody="nobody understands this")

    async def seen() -> Scrape | None:
        scrape = await Scrape.of(await port_of(worker))
        counts = ("turnstile_messages_malformed_total", "turnstile_messages_phantom_total")
        return scrape if all(scrape.total(name, queue=queue) for name in counts) else None

    of_worker = await until(seen, within=60)
    ends = "turnstile_turns_ended_total"
    assert of_worker.total(ends, queue=queue, status="SUCCEEDED", error_class="") == 3
    assert of_worker.total(ends, queue=queue, status="FAILED", error_class="ValueError") == 1
    assert of_worker.total("turnstile_turn_waiting_seconds_count", queue=queue) == 4
    assert of_worker.total("turnstile_attempt_running_seconds_count", queue=queue) == 5
    assert of_worker.total("turnstile_attempt_running_seconds_count", queue=queue, outcome="retried") == 1
    assert (of_worker.total("turnstile_messages_received_total", queue=queue) or 0) >= 3
    assert (of_worker.total("turnstile_session_lock_acquisitions_total", queue=queue, result="locked") or 0) >= 1
    assert (of_worker.total("turnstile_session_lock_hold_seconds_count", queue=queue) or 0) >= 1
    assert of_worker.total("turnstile_handler_tokens_total", queue=queue, model="small", kind="output") == 5
    assert of_worker.total("turnstile_handler_cost_dollars_total", queue=queue, model="small") == 0.25
    for trouble in ("leases_lost", "superseded_settles", "takeovers"):
        assert not of_worker.total(f"turnstile_{trouble}_total", queue=queue)
    assert of_worker.total("turnstile_slots", queue=queue) == product.settings.concurrency
    assert of_worker.total("turnstile_slots_busy", queue=queue) == 0
    assert of_worker.total("turnstile_attempt_longest_seconds", queue=queue) == 0
    assert (of_worker.total("turnstile_heartbeat_lateness_seconds", queue=queue) or 0.0) >= 0
    assert {of_worker.total("turnstile_backend_up", backend=one) for one in ("postgres", "redis_lock", "sqs")} == {1}
    assert (of_worker.total("turnstile_redis_info", role="memory", fact="used_memory") or 0) > 0

    async def has_sent() -> Scrape | None:
        scrape = await Scrape.of(await port_of(relay))
        return scrape if scrape.total("turnstile_relay_sent_total", queue=queue, kind="dead_letter") else None

    of_relay = await until(has_sent, within=60)
    assert (of_relay.total("turnstile_relay_lag_seconds_count", queue=queue) or 0) >= 1
    assert of_relay.total("turnstile_backlog_turns", queue=queue, state="due") is not None
    assert of_relay.total("turnstile_queue_paused", queue=queue) == 0
    assert of_relay.total("turnstile_workers", queue=queue, state="well") is not None
    assert of_relay.total("turnstile_sessions_halted", queue=queue) == 0
    assert of_relay.total("turnstile_dlq_messages", queue=queue) is not None

    of_api = await Scrape.of(await port_of(api))
    assert of_api.total("turnstile_turns_submitted_total", queue=queue, result="accepted") == 4
    assert of_api.total("turnstile_http_requests_total", method="POST", code="202") == 4
    assert of_api.total("process_resident_memory_bytes") is not None


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_without_a_port_nothing_listens(product: Product, start_worker: StartWorker, command: str) -> None:
    process = start_worker(command)
    await until(lambda: process.said(f"{command}.started"), within=60)

    assert process._process.pid is not None
    sockets = psutil.Process(process._process.pid).net_connections("inet")
    assert [one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN] == []
    assert process.said("metrics.listening") == []


async def test_the_metrics_answer_while_a_handler_blocks_the_event_loop(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_METRICS_PORT="0", TURNSTILE_RELAY="false")
    port = await port_of(worker)
    await product.submit({"do": "block", "seconds": 10})
    await until(product.evidence, within=60)

    scrape = await Scrape.of(port)
    assert scrape.total("turnstile_slots_busy", queue=product.settings.queue) == 1
    assert (scrape.total("turnstile_attempt_longest_seconds", queue=product.settings.queue) or 0.0) > 0
    assert not await product.evidence("ended")


async def test_a_taken_port_is_one_line_and_an_exit_code(product: Product, start_worker: StartWorker) -> None:
    first = start_worker("relay", TURNSTILE_METRICS_PORT="0")

    second = start_worker("relay", TURNSTILE_METRICS_PORT=str(await port_of(first)))

    await until(lambda: second.exit_code is not None, within=60)
    assert second.exit_code == 2
    assert "Traceback" not in second.log_path.read_text()
