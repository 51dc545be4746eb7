"""Traces as a collector receives them from real processes, compared with what the status table says."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.support.otlp_receiver import OtlpReceiver, ReceivedSpan, receiving
from tests.support.probes import until
from turnstile.ops.turns.trace_tree import read_trace
from turnstile.statements.revive import revive
from turnstile.turn.identifiers import start_trace

WORK = {"TURNSTILE_HANDLER": "tests.e2e.tracing_handlers:work"}
FAMILY = {"TURNSTILE_HANDLER": "tests.e2e.family_handlers:act"}
CLIENT = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as opened:
        yield opened


async def spans_of(receiver: OtlpReceiver, trace_id: str, name: str, count: int = 1) -> list[ReceivedSpan]:
    """Those of a trace with that name, once so many have come."""
    await until(lambda: len(receiver.of(trace_id, name)) >= count)
    found = receiver.of(trace_id, name)
    assert len(found) == count
    return found


async def submit(api: WorkerProcess, flags: str = "01", **headers: str) -> dict[str, Any]:
    """Submits to the API as a client that is traced itself."""
    await until(lambda: api.said("api.listening"))
    port = api.said("api.listening")[0]["port"]
    given = {"traceparent": f"00-{CLIENT[0]}-{CLIENT[1]}-{flags}", **headers}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        answer = await client.post("/v1/sessions/s/turns", json={"input": "hello"}, headers=given)
        assert answer.status_code == 202, answer.text
        return {**answer.json(), "traceparent": answer.headers["traceparent"]}


async def test_a_turns_trace_goes_from_the_client_to_the_handlers_own_spans(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    api = start_worker("api", TURNSTILE_API_PORT="0", **receiver.environment)
    start_worker(**WORK, **receiver.environment)
    turn = await submit(api)
    await product.ended()

    trace_id = CLIENT[0]
    await until(lambda: len(receiver.of(trace_id)) >= 8)
    spans = {span.name.split()[0]: span for span in receiver.of(trace_id)}
    [row] = await product.rows()
    queue = product.settings.queue
    assert {name: (span.kind, span.service) for name, span in spans.items()} == {
        "submit": ("PRODUCER", "turnstile-api"),
        "send": ("CLIENT", "turnstile-api"),
        "receive": ("CLIENT", "turnstile-worker"),
        "process": ("CONSUMER", "turnstile-worker"),
        "claim": ("INTERNAL", "turnstile-worker"),
        "handle": ("INTERNAL", "turnstile-worker"),
        "work": ("INTERNAL", "turnstile-worker"),
        "settle": ("INTERNAL", "turnstile-worker"),
    }
    parents = {name: span.parent_span_id for name, span in spans.items()}
    turn_span, attempt = row["span_id"], spans["process"].span_id
    assert parents == {
        "submit": CLIENT[1],
        **dict.fromkeys(("send", "receive", "process"), turn_span),
        **dict.fromkeys(("claim", "handle", "settle"), attempt),
        "work": spans["handle"].span_id,
    }
    # The table's ids are the backend's, and `turnstile trace` shows the same.
    assert (spans["submit"].trace_id, spans["submit"].span_id) == (row["trace_id"], turn_span)
    [shown] = await read_trace(product.database, trace_id)
    assert (shown.span_id, shown.parent_span_id) == (turn_span, CLIENT[1])
    assert turn["traceparent"] == f"00-{trace_id}-{turn_span}-01"
    assert await product.reply_of(row["id"]) == f"00-{trace_id}-{attempt}-01"

    ids = {"turnstile.turn_id": str(row["id"]), "turnstile.session_id": "s", "turnstile.queue": queue}
    about = {"messaging.system": "aws_sqs", "messaging.destination.name": queue, **ids}
    assert about.items() <= spans["send"].attributes.items()
    assert spans["send"].attributes["messaging.operation.type"] == "send"
    assert spans["receive"].attributes["messaging.operation.type"] == "receive"
    message_ids = [spans[name].attributes["messaging.message.id"] for name in ("send", "receive", "process")]
    assert len(message_ids[0]) > 8
    assert message_ids == [message_ids[0]] * 3
    wanted = {
        **about,
        "messaging.operation.type": "process",
        "turnstile.attempt": 1,
        "turnstile.fence": row["fence"],
        "turnstile.outcome": "succeeded",
    }
    assert wanted.items() <= spans["process"].attributes.items()
    assert "error.type" not in spans["process"].attributes
    order = [spans[name].began_at for name in ("submit", "send", "receive", "claim", "handle", "work", "settle")]
    assert order == sorted(order)


async def test_a_client_that_is_not_sampled_gets_no_spans(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    api = start_worker("api", TURNSTILE_API_PORT="0", **receiver.environment)
    start_worker(**WORK, **receiver.environment)

    turn = await submit(api, flags="00")
    await product.ended()
    [sampled] = await product.submit("next")
    await product.ended()

    await spans_of(receiver, (await product.row(sampled))["trace_id"], "settle")
    assert turn["traceparent"].endswith("-00")
    assert receiver.of(CLIENT[0]) == []


@pytest.mark.parametrize("handler", ["work", "work_in_thread"])
async def test_the_spans_of_async_and_plain_handlers_nest_in_the_attempt(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver, handler: str
) -> None:
    start_worker(TURNSTILE_HANDLER=f"tests.e2e.tracing_handlers:{handler}", **receiver.environment)
    turns = await product.submit("one", "two")
    await product.ended()

    for turn in turns:
        trace_id = (await product.row(turn))["trace_id"]
        [process] = await spans_of(receiver, trace_id, "process")
        [handle] = await spans_of(receiver, trace_id, "handle")
        [work] = await spans_of(receiver, trace_id, "work")
        assert (work.parent_span_id, handle.parent_span_id) == (handle.span_id, process.span_id)


async def test_each_attempt_links_to_the_attempt_before_it(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    start_worker(**receiver.environment)
    [turn] = await product.submit({"do": "flaky", "times": 2})
    await product.ended()

    row = await product.row(turn)
    attempts = await spans_of(receiver, row["trace_id"], "process", 3)
    assert [span.attributes["turnstile.outcome"] for span in attempts] == ["retried", "retried", "succeeded"]
    assert [span.attributes.get("error.type") for span in attempts] == ["Retry", "Retry", None]
    assert [span.is_error for span in attempts] == [True, True, False]
    assert [span.attributes["turnstile.attempt"] for span in attempts] == [1, 2, 3]
    before = [((row["trace_id"], span.span_id),) for span in attempts[:2]]
    assert [span.links for span in attempts] == [(), *before]
    assert {span.parent_span_id for span in attempts} == {row["span_id"]}


async def test_a_snooze_costs_no_attempt_and_is_linked_all_the_same(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    start_worker(TURNSTILE_HANDLER="tests.e2e.tracing_handlers:sing", **receiver.environment)
    [turn] = await product.submit({"do": "snooze"})
    await product.ended()

    first, second = await spans_of(receiver, (await product.row(turn))["trace_id"], "process", 2)
    assert [span.attributes["turnstile.attempt"] for span in (first, second)] == [1, 1]
    assert second.links == ((first.trace_id, first.span_id),)


async def test_a_redriven_turn_has_a_trace_that_links_to_the_earlier_one(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    start_worker(**receiver.environment)
    [turn] = await product.submit({"do": "bug"})
    await product.ended()
    before = await product.row(turn)
    [failed] = await spans_of(receiver, before["trace_id"], "process")
    assert (failed.attributes["turnstile.outcome"], failed.attributes["error.type"]) == ("failed", "ValueError")

    trace = start_trace(2**190 + 12345)
    await revive(product.database, [(turn, 1)], [trace], expires_in_seconds=[60.0], resend_seconds=0.01)

    [again] = await spans_of(receiver, trace.trace_id, "process")
    [root] = await spans_of(receiver, trace.trace_id, "redrive")
    assert again.links == ((failed.trace_id, failed.span_id),)
    assert (root.span_id, root.parent_span_id, again.parent_span_id) == (trace.span_id, "", trace.span_id)
    assert again.attributes["turnstile.generation"] == 2


async def test_children_keep_the_trace_of_their_parent(
    product: Product, start_worker: StartWorker, receiver: OtlpReceiver
) -> None:
    start_worker(**FAMILY, **receiver.environment)
    [parent] = await product.submit({"do": "fan out", "orders": [{"do": "echo"}, {"do": "echo"}]})
    await product.ended()

    row = await product.row(parent)
    submits = await spans_of(receiver, row["trace_id"], "submit", 2)
    children = await product.rows(f"parent_turn_id = '{parent}'")
    assert {span.span_id for span in submits} == {child["span_id"] for child in children}
    assert {span.parent_span_id for span in submits} == {row["span_id"]}
    # Two of the parent: it runs again when its children have ended.
    processed = await spans_of(receiver, row["trace_id"], "process", 4)
    assert {span.parent_span_id for span in processed} == {row["span_id"], *(span.span_id for span in submits)}


NO_METRICS = {"OTEL_METRICS_EXPORTER": "none"}


@pytest.mark.parametrize(
    ("variables", "are_imported"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none", **NO_METRICS}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
async def test_what_records_traces_is_imported_only_if_a_variable_asks_for_it(
    product: Product, start_worker: StartWorker, variables: dict[str, str], are_imported: bool
) -> None:
    start_worker(**WORK, **variables)
    [turn] = await product.submit("modules")
    await product.ended()
    assert bool(await product.reply_of(turn)) is are_imported


@asynccontextmanager
async def silent_collector() -> Any:
    """Accepts connections and never answers."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    for writer in held:
        writer.close()
    server.close()


async def test_a_collector_that_never_answers_keeps_no_turn_and_no_process_waiting(
    product: Product, start_worker: StartWorker
) -> None:
    async with silent_collector() as port:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "50"}
        # Apart, as infra has them: a relay that exports metrics counts dead letters, which a worker's role may not.
        processes = [start_worker(TURNSTILE_RELAY="false", **endpoint), start_worker("relay", **endpoint)]
        await product.submit(*["hello"] * 20)
        await product.ended()
        for process in processes:
            process.signal(signal.SIGTERM)
        await until(lambda: all(process.exit_code is not None for process in processes), within=15)
        assert [process.exit_code for process in processes] == [0, 0]
