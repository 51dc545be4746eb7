"""Spans under given ids, by OpenTelemetry's SDK. Imported only if traces are exported.

The SDK chooses the ids of its spans; those of a turn are in the status table before its first span begins. So our tracer, and no
other, has an id generator that returns the ids that it is given.
"""

import secrets
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags

from turnstile.telemetry.own_log import log
from turnstile.turn.identifiers import TraceContext, read_traceparent

Attributes = Mapping[str, str | int | bool]


class _UnseededIds(RandomIdGenerator):
    """Not the SDK's generator: a handler that seeds `random` would repeat its ids within a trace."""

    def generate_trace_id(self) -> int:
        # W3C declares the all-zero id invalid.
        return secrets.randbits(128) or 1

    def generate_span_id(self) -> int:
        return secrets.randbits(64) or 1


class _Ids(threading.local, _UnseededIds):
    """The next span's ids: the given ones, otherwise random ones."""

    trace_id: int | None = None
    span_id: int | None = None

    def give(self, ids: TraceContext | None) -> None:
        self.trace_id, self.span_id = (None, None) if ids is None else (int(ids.trace_id, 16), int(ids.span_id, 16))

    def generate_trace_id(self) -> int:
        return self.trace_id or super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.span_id or super().generate_span_id()


class Spans:
    """Makes the spans of a process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._ids = _Ids()
        self._tracer = provider.get_tracer("turnstile")
        if isinstance(self._tracer, Tracer):
            self._tracer.id_generator = self._ids

    @classmethod
    def exporting(cls, service: str, *, shared: bool) -> "Spans":
        """Exports by OTLP over HTTP, as OpenTelemetry's variables say; or by the provider that the handler's module has set.

        `shared`: the tracers of other code in this process, the user's handler, export in the same way. Where no handler runs
        they must not: the web framework would record spans of its own, and exceptions with their texts.
        """
        present = otel.get_tracer_provider()
        if isinstance(present, TracerProvider):
            return cls(present)
        is_named = SERVICE_NAME in OTELResourceDetector().detect().attributes
        resource = Resource.create({} if is_named else {SERVICE_NAME: service})
        # `tracing.flush` exports the last spans, within a bound; the SDK's own hook at the process's exit has none.
        provider = TracerProvider(resource=resource, id_generator=_UnseededIds(), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        if shared:
            otel.set_tracer_provider(provider)
        return cls(provider)

    def flush(self, seconds: float) -> None:
        """Exports what is recorded. May take longer than its timeout, because the exporter retries."""
        self._provider.force_flush(int(seconds * 1000))

    def decide(self, trace: TraceContext) -> TraceContext:
        """A new trace with the sampler's decision, which its span id carries from here on."""
        sampler = self._provider.sampler
        result = sampler.should_sample(
            _containing(parent_of(trace)), int(trace.trace_id, 16), "submit", SpanKind.PRODUCER
        )
        return trace.with_decision(sampled=result.decision is Decision.RECORD_AND_SAMPLE)

    def start(
        self,
        name: str,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: Attributes,
        began_at: int,
        *,
        ids: TraceContext | None = None,
        links: Sequence[Link] = (),
    ) -> Span:
        """A span that began at `began_at` (Unix time in nanoseconds, here and everywhere), with the ids of `ids`."""
        self._ids.give(ids)
        try:
            return self._tracer.start_span(name, _containing(parent), kind, attributes, links, began_at)
        finally:
            self._ids.give(None)


def parent_of(trace: TraceContext) -> SpanContext | None:
    """The context of the parent of the span that `trace` names; None for a root."""
    if trace.parent_span_id is None:
        return None
    return _context(trace.trace_id, trace.parent_span_id, sampled=trace.sampled)


def as_context(trace: TraceContext) -> SpanContext:
    """The context of the span that `trace` names."""
    return _context(trace.trace_id, trace.span_id, sampled=trace.sampled)


def _context(trace_id: str, span_id: str, *, sampled: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)


def sampled_parent(traceparent: str | None) -> SpanContext | None:
    """The span that a message names; None if it names none, or one that is not sampled."""
    if traceparent is None or traceparent.endswith("-00"):
        # Most turns of a sampler that records few: they are not parsed.
        return None
    trace = read_traceparent(traceparent)
    return None if trace is None or not trace.sampled else parent_of(trace)


def _containing(parent: SpanContext | None) -> Context:
    # Never the present context: a handler's own spans may be in it.
    return Context() if parent is None else otel.set_span_in_context(NonRecordingSpan(parent), Context())


def about_queue(queue: str, operation_type: str, operation_name: str | None = None) -> dict[str, str]:
    """`operation_type`: create, send, receive or process. `operation_name`: the same, if it has no name of its own."""
    return {
        "messaging.system": "aws_sqs",
        "messaging.destination.name": queue,
        "messaging.operation.type": operation_type,
        "messaging.operation.name": operation_name or operation_type,
        "turnstile.queue": queue,
    }


def about_turn(turn_id: object, session_id: str) -> dict[str, str]:
    """The turn's ids."""
    return {"turnstile.turn_id": str(turn_id), "turnstile.session_id": session_id}


Given = ParamSpec("Given")
Result = TypeVar("Result")

FRAMES = 3
"""How many frames of the error's stack are logged, from the innermost out: a step may fail for every turn."""


def never_raises(step: Callable[Given, Result]) -> Callable[Given, Result | None]:
    """The same step, but an error is one WARNING line, and the result is None: no turn ends because of telemetry.

    The provider may be one that the handler's module has set, and the SDK lets errors of its processors and samplers through.
    """

    @wraps(step)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result | None:
        try:
            return step(*given, **named)
        except Exception as error:
            # The place, but not the error's text, which may quote a message.
            where = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
            log.warning("tracing.failed", step=step.__qualname__, error_class=type(error).__name__, where=where)
            return None

    return guarded
