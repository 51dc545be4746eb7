"""Switching traces on and off."""

import sys

import pytest
import structlog.testing
from structlog.testing import capture_logs

from turnstile.config.config_file import load
from turnstile.telemetry import tracing


def test_unwanted_traces_stay_off() -> None:
    traces = tracing.start("test", wanted=False)

    assert traces is None
    tracing.flush(traces)


def test_without_the_packages_a_process_starts_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("turnstile.telemetry.spans", "turnstile.telemetry.turn_spans"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with capture_logs() as lines:
        traces = tracing.start("test", wanted=True)

    assert traces is None
    [line] = lines
    assert (line["event"], line["log_level"]) == ("tracing.off", "warning")
    assert "pip install 'turnstile-sqs[telemetry]'" in line["reason"]


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "console"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": ""}, True),
        ({"OTEL_SERVICE_NAME": "mine", "OTEL_TRACES_SAMPLER": "always_on"}, False),
    ],
)
def test_the_variables_of_opentelemetry_decide(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: bool
) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert load().exports_traces is wanted


def test_a_value_that_the_sdk_refuses_keeps_no_process_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")

    with structlog.testing.capture_logs() as lines:
        traces = tracing.start("turnstile-test", wanted=True)

    assert traces is None
    assert [line["event"] for line in lines] == ["tracing.off"]
