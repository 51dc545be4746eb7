"""The spans of a turn as the SDK records them: what is sampled, what ids they have, and what stands in them."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog.testing
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased

from tests.support.factories import CLAIMED
from turnstile.telemetry.spans import Spans
from turnstile.telemetry.turn_spans import TurnSpans
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import TraceContext, continue_trace, start_trace
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp

DONE = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED)
FAULT = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error="what the user said"
)
WAKE_UP = WakeUp("t", "s", CLAIMED.id)


class Recorded:
    """A process's spans, kept in memory."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler or ParentBased(TraceIdRatioBased(1.0)), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.turns = TurnSpans(Spans(self.provider))

    def by_name(self) -> dict[str, ReadableSpan]:
        return {span.name.split()[0]: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.provider.shutdown()


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    parent = span.parent and format(span.parent.span_id, "016x")
    return format(span.context.trace_id, "032x"), format(span.context.span_id, "016x"), parent


def seconds_of(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def submit(turns: TurnSpans, trace: TraceContext, stored: TraceContext | None = None) -> None:
    turns.submitted(trace, stored or trace, 1, queue="turns", turn_id=CLAIMED.id, session_id="s")


def whole(recorded: Recorded, turn: Any = CLAIMED, settlement: Settlement = DONE) -> None:
    """A turn from its submit to its settle."""
    submit(recorded.turns, turn.trace)
    message = OutgoingMessage(WAKE_UP, turn.trace.traceparent)
    recorded.turns.sent("turns", [(message, "m-1")], 1)
    received = ReceivedMessage("m-1", "", "", 1, {"traceparent": message.traceparent}, False)
    recorded.turns.received("turns", received, WAKE_UP, "locked")
    span = recorded.turns.begin_attempt(turn, "m-1", 1)
    asyncio.run(handled(span.enter_handler))
    span.leave_handler(settlement.error_class)
    span.settled(settlement.status, settlement)


async def handled(enter: Callable[[], None]) -> None:
    enter()


def test_the_ids_of_submit_and_attempt_are_those_of_the_table(recorded: Recorded) -> None:
    turn = replace(CLAIMED, trace_id="a" * 32, span_id="b" * 16, parent_span_id="c" * 16)

    whole(recorded, turn)

    spans = recorded.by_name()
    assert ids(spans["submit"]) == ("a" * 32, "b" * 16, "c" * 16)
    attempt = turn.trace.attempt(turn.fence)
    assert ids(spans["process"]) == (attempt.trace_id, attempt.span_id, "b" * 16)
    inner = {name: ids(spans[name])[2] for name in ("send", "receive", "claim", "handle", "settle")}
    assert inner == {
        "send": "b" * 16,
        "receive": "b" * 16,
        **dict.fromkeys(("claim", "handle", "settle"), attempt.span_id),
    }


def test_an_attempt_lasts_from_the_request_of_its_claim_to_the_end_of_its_settle(recorded: Recorded) -> None:
    whole(recorded)

    spans = recorded.by_name()
    assert spans["process"].start_time == spans["claim"].start_time == 1
    assert spans["process"].end_time == spans["settle"].end_time


def test_a_receive_begins_when_its_message_arrived(recorded: Recorded) -> None:
    arrived = time.monotonic() - 100.0
    attributes = {"traceparent": CLAIMED.trace.traceparent}
    message = ReceivedMessage("m-1", "", "", 1, attributes, False, received_at=arrived)

    recorded.turns.received("turns", message, WAKE_UP, "locked")

    assert 100.0 <= seconds_of(recorded.by_name()["receive"]) < 160.0


def test_a_redrive_lasts_until_its_first_attempt(recorded: Recorded) -> None:
    recorded.turns.begin_attempt(replace(CLAIMED, generation=2, queue_latency_seconds=100.0), None, None)

    assert 100.0 <= seconds_of(recorded.by_name()["redrive"]) < 160.0


def test_no_text_of_an_error_is_recorded(recorded: Recorded) -> None:
    whole(recorded, settlement=FAULT)

    spans = recorded.by_name()
    assert [span.name for span in spans.values() if "what the user said" in span.to_json()] == []
    for name in ("process", "handle"):
        assert spans[name].attributes is not None
        assert spans[name].attributes["error.type"] == "Boom"
        assert spans[name].status.status_code is otel.StatusCode.ERROR
        assert spans[name].status.description is None
        assert list(spans[name].events) == []


def test_a_cancel_that_came_first_is_the_outcome_and_no_error(recorded: Recorded) -> None:
    span = recorded.turns.begin_attempt(CLAIMED, None, None)
    span.settled(TurnStatus.CANCELED, FAULT)

    [recorded_span] = recorded.exporter.get_finished_spans()
    assert recorded_span.attributes is not None
    assert recorded_span.attributes["turnstile.outcome"] == "canceled"
    assert "error.type" not in recorded_span.attributes


def test_a_superseded_attempt_ends_with_that_outcome(recorded: Recorded) -> None:
    recorded.turns.begin_attempt(CLAIMED, None, None).superseded(at_settle=True)

    [span] = recorded.exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["turnstile.outcome"] == "superseded"


@pytest.mark.parametrize("at_settle", [True, False])
def test_a_superseded_attempt_has_the_span_of_a_settle_only_if_it_asked_for_one(
    recorded: Recorded, at_settle: bool
) -> None:
    span = recorded.turns.begin_attempt(CLAIMED, None, None)

    span.leave_handler(None)
    span.superseded(at_settle=at_settle)

    assert ("settle" in recorded.by_name()) is at_settle


def test_a_repeat_has_a_span_of_its_own_that_links_to_the_turns(recorded: Recorded) -> None:
    asked, stored = start_trace(2**100 + 3), start_trace(2**150 + 7)

    submit(recorded.turns, asked, stored)

    [span] = recorded.exporter.get_finished_spans()
    assert ids(span) == (asked.trace_id, asked.span_id, None)
    assert [format(link.context.span_id, "016x") for link in span.links] == [stored.span_id]


# --- sampling


def test_of_a_turn_that_is_not_sampled_nothing_is_recorded(recorded: Recorded) -> None:
    whole(recorded, replace(CLAIMED, span_id="2" * 16))

    assert recorded.exporter.get_finished_spans() == ()


def test_the_spans_of_a_handler_are_sampled_as_its_turn_is(recorded: Recorded) -> None:
    theirs = recorded.provider.get_tracer("theirs")
    found: list[tuple[bool, int]] = []

    async def handler(enter: Callable[[], None]) -> None:
        enter()
        with theirs.start_as_current_span("theirs") as span:
            found.append((span.is_recording(), span.get_span_context().trace_id))

    for span_id in ("1" * 16, "2" * 16):
        span = recorded.turns.begin_attempt(replace(CLAIMED, span_id=span_id), None, None)
        asyncio.run(handler(span.enter_handler))
        # What is outside the handler's task knows nothing of it.
        assert not otel.get_current_span().get_span_context().is_valid

    assert found == [(True, int(CLAIMED.trace_id, 16)), (False, int(CLAIMED.trace_id, 16))]


def test_the_sampler_decides_about_each_new_turn_once_and_for_all_processes() -> None:
    api, worker = (Recorded(ParentBased(TraceIdRatioBased(0.25))) for _ in range(2))
    decided = [api.turns.decide(start_trace((number << 120) * 7919 + number)) for number in range(1, 2000)]

    sampled = [trace for trace in decided if trace.sampled]
    for trace in decided:
        submit(api.turns, trace)
        worker.turns.begin_attempt(
            replace(CLAIMED, trace_id=trace.trace_id, span_id=trace.span_id), None, None
        ).superseded(at_settle=True)

    assert 0.15 < len(sampled) / len(decided) < 0.35
    names = {ids(span)[0] for span in api.exporter.get_finished_spans()}
    assert names == {trace.trace_id for trace in sampled}
    assert {ids(span)[0] for span in worker.exporter.get_finished_spans()} == names


@pytest.mark.parametrize("flags", ["00", "01"])
def test_the_clients_decision_counts_with_a_sampler_that_asks_parents(flags: str) -> None:
    trace = continue_trace(f"00-{'1' * 32}-{'2' * 16}-{flags}", 77)

    assert Recorded(ParentBased(ALWAYS_OFF)).turns.decide(trace).sampled is (flags == "01")


def test_a_sampler_that_says_no_records_nothing_and_keeps_the_ids() -> None:
    recorded = Recorded(ALWAYS_OFF)
    span = recorded.turns.begin_attempt(CLAIMED, None, None)

    async def handler() -> otel.SpanContext:
        span.enter_handler()
        return otel.get_current_span().get_span_context()

    of_handler = asyncio.run(handler())
    assert (of_handler.trace_id, of_handler.trace_flags.sampled) == (int(CLAIMED.trace_id, 16), False)
    span.superseded(at_settle=True)

    assert not span.is_recorded
    assert recorded.exporter.get_finished_spans() == ()


# --- links, and turns whose ids a statement has made


@pytest.mark.parametrize("settles_first", [True, False])
def test_the_span_of_an_attempt_waits_for_its_link(recorded: Recorded, settles_first: bool) -> None:
    earlier = CLAIMED.trace.attempt(3)
    span = recorded.turns.begin_attempt(CLAIMED, None, None)
    span.await_link()
    steps = [lambda: span.settled(TurnStatus.SUCCEEDED, DONE), lambda: span.link(earlier)]
    for step in steps if settles_first else reversed(steps):
        assert recorded.exporter.get_finished_spans() == ()
        step()

    [ended] = recorded.exporter.get_finished_spans()
    assert [format(link.context.span_id, "016x") for link in ended.links] == [earlier.span_id]


def test_a_link_that_is_not_found_keeps_no_span(recorded: Recorded) -> None:
    span = recorded.turns.begin_attempt(CLAIMED, None, None)
    span.await_link()
    span.settled(TurnStatus.SUCCEEDED, DONE)
    span.link(None)

    [ended] = recorded.exporter.get_finished_spans()
    assert list(ended.links) == []


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"generation": 2}, ["redrive"]),
        ({"generation": 2, "waited_seconds": None}, []),
        ({"kind": "compensation", "parent_span_id": "d" * 16}, ["compensate"]),
        ({}, []),
    ],
)
def test_the_first_attempt_shows_the_turns_own_span_if_no_submit_did(
    recorded: Recorded, fields: dict[str, Any], shown: list[str]
) -> None:
    turn = replace(CLAIMED, **fields)
    recorded.turns.begin_attempt(turn, None, None).superseded(at_settle=True)

    spans = recorded.by_name()
    assert [name for name in spans if name != "process"] == shown
    for name in shown:
        assert ids(spans[name]) == (turn.trace_id, turn.span_id, turn.parent_span_id)


# --- ids


def test_other_tracers_of_the_provider_keep_their_own_ids(recorded: Recorded) -> None:
    theirs = recorded.provider.get_tracer("theirs")
    whole(recorded)
    theirs.start_span("theirs").end()

    known = {ids(span)[1] for span in recorded.exporter.get_finished_spans()}
    assert len(known) == len(recorded.exporter.get_finished_spans())


def test_a_handler_that_seeds_random_repeats_no_span_id(recorded: Recorded) -> None:
    for _ in range(3):
        random.seed(42)
        recorded.turns.sent("turns", [(OutgoingMessage(WAKE_UP, CLAIMED.trace.traceparent), "m-1")], 1)

    sends = [span for span in recorded.exporter.get_finished_spans() if span.name == "send turns"]
    assert len({ids(span)[1] for span in sends}) == len(sends) == 3


def test_threads_do_not_get_each_others_ids(recorded: Recorded) -> None:
    traces = [[start_trace((thread << 100) + number * 2 + 1) for number in range(1, 200)] for thread in range(1, 5)]
    threads = [
        threading.Thread(target=lambda many=many: [submit(recorded.turns, one) for one in many]) for many in traces
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {ids(span)[:2] for span in recorded.exporter.get_finished_spans()} == {
        (one.trace_id, one.span_id) for many in traces for one in many
    }


class Broken(SpanProcessor):
    """As a processor of the handler's module may be."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("no")


def test_a_processor_that_raises_stops_no_step_of_a_turn(recorded: Recorded) -> None:
    recorded.provider.add_span_processor(Broken())

    with structlog.testing.capture_logs() as lines:
        submit(recorded.turns, CLAIMED.trace)
        assert recorded.turns.begin_attempt(CLAIMED, None, None) is None

    assert {(line["event"], line["error_class"]) for line in lines} == {("tracing.failed", "RuntimeError")}
    assert all("in on_start" in line["where"] for line in lines)
