"""No text of a user, a handler or an operator stands in a log line or in a span (G23, G24)."""

import httpx

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.e2e.tracing_handlers import CANARY
from tests.support.otlp_receiver import OtlpReceiver, receiving
from tests.support.probes import until
from turnstile.statements.revive import revive
from turnstile.turn.identifiers import start_trace

ORDERS = ("answer", "retry", "ask for a retry", "snooze", "fail", "be refused", "use the database", "wait")
COMMON = {
    "TURNSTILE_HANDLER": "tests.e2e.tracing_handlers:sing",
    "TURNSTILE_WEBHOOK_HOSTS": "*.example.invalid",
    "TURNSTILE_WEBHOOK_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "TURNSTILE_RELAY": "false",
}


async def test_what_is_said_stands_in_no_log_line_and_in_no_span(product: Product, start_worker: StartWorker) -> None:
    with receiving() as receiver:
        environment = {**COMMON, **receiver.environment}
        api = start_worker("api", TURNSTILE_API_PORT="0", **environment)
        processes = [api, start_worker(**environment), start_worker("relay", **environment)]
        await _drive(product, api)
        traces = {row["trace_id"] for row in await product.rows()}
        await until(lambda: all(receiver.of(trace_id, "settle") for trace_id in traces))
        _find_none(processes, receiver)
        lines = [line for process in processes for line in process.lines()]
        said = {line["event"] for line in lines}
        # It proves nothing if the paths were not taken.
        assert {
            *("turn.submitted", "turn.claimed", "turn.succeeded", "turn.retried", "turn.snoozed", "turn.failed"),
            *("turn.canceled", "attempt.raised", "webhook.not_delivered", "relay.dead_lettered"),
        } <= said
        without = [line for line in lines if "turn_id" in line and not line.get("trace_id")]
        assert without == []


async def _drive(product: Product, api: WorkerProcess) -> None:
    await until(lambda: api.said("api.listening"))
    port = api.said("api.listening")[0]["port"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        turns: dict[str, str] = {}
        for number, do in enumerate(ORDERS):
            body = {
                "input": {"do": do, "say": f"{CANARY} input"},
                "metadata": {"note": f"{CANARY} metadata"},
                "webhook_url": f"https://hooks.example.invalid/{CANARY}?token={CANARY}",
            }
            answer = await client.post(f"/v1/sessions/s{number}/turns", json=body)
            turns[do] = answer.json()["id"]
        for refused in (
            f'{{"input": "{CANARY}", "{CANARY}": 1}}',
            f'{{"input": "{CANARY}',
            f'{{"input": "\\u0000{CANARY}"}}',
        ):
            await client.post("/v1/sessions/s/turns", content=refused, headers={"Content-Type": "application/json"})
        await product.status_is(turns["wait"], "RUNNING")
        await client.post(f"/v1/turns/{turns['wait']}/cancel")
        await product.ended()
        failed = turns["fail"]
        await revive(
            product.database, [(failed, 1)], [start_trace(2**100)], expires_in_seconds=[60.0], resend_seconds=0.01
        )
        await product.ended()

    async def all_sent() -> bool:
        untried = await product.fetch("SELECT FROM webhooks WHERE tries = 0")
        letters = await product.rows("status = 'FAILED' AND dead_lettered_at IS NULL")
        return not untried and not letters

    await until(all_sent)


def _find_none(processes: list[WorkerProcess], receiver: OtlpReceiver) -> None:
    for process in processes:
        # The whole output, also lines that are not the product's.
        assert CANARY not in process.log_path.read_text()
    assert [span.name for span in receiver.spans if CANARY in span.text] == []
