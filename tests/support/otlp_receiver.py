"""A receiver of traces, as OpenTelemetry's collector is one: OTLP over HTTP, kept in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span; ids in hex, `links` as (trace id, span id)."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_span_id: str
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    is_error: bool
    began_at: int
    ended_at: int
    text: str
    """All of it, for a look at every string in it."""


class OtlpReceiver:
    """Use it as the endpoint of a process; `spans` are those that came so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[ReceivedSpan] = []

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that exports to it, quickly. It takes no metrics."""
        spans_only = {"OTEL_METRICS_EXPORTER": "none"}
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50", **spans_only}

    def of(self, trace_id: str, name: str = "") -> list[ReceivedSpan]:
        """The spans of a trace whose names begin with `name`, in the order of their beginnings."""
        found = [span for span in self.spans if span.trace_id == trace_id and span.name.startswith(name)]
        return sorted(found, key=lambda span: span.began_at)

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_read(service, span) for span in scope.spans]


def _read(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        kind=KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        attributes={one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        is_error=span.status.code == 2,
        began_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
        text=str(span),
    )


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """A receiver on a free port of the loopback."""

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receive)
    receiver = OtlpReceiver(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
