"""The metrics by OTLP, at a real receiver that reads the protobuf."""

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support.probes import wait_until
from turnstile.telemetry import otlp_metrics
from turnstile.telemetry.metrics import LOCK_WAIT, MESSAGES_RECEIVED, SLOTS, WEBHOOKS_OWED
from turnstile.telemetry.otlp_metrics import exporting_by_otlp

NEVER = 3600.0


class Receiver(ThreadingHTTPServer):
    """Takes everything, and keeps what it took."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[tuple[str, ExportMetricsServiceRequest]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def metrics(self) -> dict[str, Any]:
        """The metrics of the last export, by name."""
        [resource] = self.taken[-1][1].resource_metrics
        [scope] = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    def resource(self) -> dict[str, str]:
        [resource] = self.taken[-1][1].resource_metrics
        return {one.key: one.value.string_value for one in resource.resource.attributes}


class _Taking(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, ExportMetricsServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    opened = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
    yield opened
    opened.shutdown()
    opened.server_close()


def labels_of(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def point_of(points: Any, **labels: str) -> Any:
    [found] = [point for point in points if labels_of(point) == labels]
    return found


def test_counters_gauges_and_histograms_arrive_under_their_names(receiver: Receiver) -> None:
    began = time.time_ns()
    SLOTS.set(64, "otlp")
    WEBHOOKS_OWED.forget()
    MESSAGES_RECEIVED.add(3, "otlp")
    for seconds in (0.0005, 0.0006, 0.004, 7.0):
        LOCK_WAIT.observe(seconds, "otlp")

    with exporting_by_otlp("worker", NEVER):
        pass

    assert [path for path, _ in receiver.taken] == ["/v1/metrics"]
    metrics = receiver.metrics()
    received = metrics["turnstile_messages_received"].sum
    assert (received.is_monotonic, received.aggregation_temporality) == (True, 2), "2: cumulative"
    point = point_of(received.data_points, queue="otlp")
    assert point.as_double == 3
    assert began <= point.start_time_unix_nano < point.time_unix_nano <= time.time_ns()
    assert point_of(metrics["turnstile_slots"].gauge.data_points, queue="otlp").as_double == 64
    waits = metrics["turnstile_session_lock_wait_seconds"]
    assert (waits.unit, waits.histogram.aggregation_temporality) == ("s", 2)
    wait = point_of(waits.histogram.data_points, queue="otlp")
    assert list(wait.explicit_bounds) == [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]
    assert list(wait.bucket_counts) == [2, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert (wait.count, round(wait.sum, 4)) == (4, 7.0051)
    assert not wait.HasField("min")
    # Unknown is not a number.
    assert len(metrics["turnstile_webhooks_owed"].gauge.data_points) == 0
    assert "process_resident_memory_bytes" in metrics


def test_they_are_sent_again_and_again(receiver: Receiver) -> None:
    with exporting_by_otlp("worker", 0.02):
        wait_until(lambda: len(receiver.taken) >= 3)


@pytest.mark.parametrize(
    ("variables", "name"), [({}, "turnstile-relay"), ({"OTEL_SERVICE_NAME": "chat"}, "chat")], ids=["ours", "theirs"]
)
def test_each_process_is_a_service_with_an_instance_of_its_own(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)

    with exporting_by_otlp("relay", NEVER):
        pass

    resource = receiver.resource()
    assert resource["service.name"] == name
    assert UUID(resource["service.instance.id"])


def test_an_instance_that_the_environment_names_keeps_its_name(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=task-7")

    with exporting_by_otlp("relay", NEVER):
        pass

    assert receiver.resource()["service.instance.id"] == "task-7"


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def nowhere() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.mark.parametrize("where", ["silent", "nowhere"])
def test_no_receiver_delays_the_end_of_the_process_for_longer_than_a_moment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{request.getfixturevalue(where)}")
    monkeypatch.setattr(otlp_metrics, "FLUSH_SECONDS", 0.2)
    began = time.monotonic()

    with exporting_by_otlp("worker", 0.01):
        pass

    # The exporter's own timeout is 10 s.
    assert time.monotonic() - began < 5
    # Python waits for all others.
    assert all(thread.daemon for thread in exporting())


def test_without_the_extra_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)

    with exporting_by_otlp("worker", 0.01):
        wait_until(lambda: not exporting())

    assert capsys.readouterr().out.count("metrics.no_otlp") == 1


def exporting() -> list[threading.Thread]:
    """The threads that export."""
    return [thread for thread in threading.enumerate() if thread.name == "otlp metrics"]


def test_a_defect_of_one_export_does_not_end_the_exports(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make: Callable[..., Callable[[], None]] = otlp_metrics._make_export
    failures = iter([KeyError("a bug")])

    def make_failing(process: str, since: int) -> Callable[[], None]:
        export = make(process, since)

        def fail_once() -> None:
            if (error := next(failures, None)) is not None:
                raise error
            export()

        return fail_once

    monkeypatch.setattr(otlp_metrics, "_make_export", make_failing)

    with exporting_by_otlp("worker", 0.01):
        wait_until(lambda: receiver.taken)

    assert capsys.readouterr().out.count("metrics.export_failed") == 1
