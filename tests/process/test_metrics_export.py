"""Whether a process exports its metrics is a matter of its settings."""

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from turnstile.config.settings import Settings
from turnstile.process.metrics_export import exporting_metrics

ENDPOINT = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread starts and has nothing to export with."""
    monkeypatch.setattr("turnstile.telemetry.otlp_metrics._make_export", lambda *_: lambda: None)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_without_a_port_and_without_otlp_nothing_listens_or_is_exported() -> None:
    before = threads()

    with capture_logs() as lines, exporting_metrics(Settings(), "worker"):
        assert threads() == before

    assert lines == []


def test_a_port_is_served_and_says_where() -> None:
    settings = Settings(metrics_port=0)
    with capture_logs() as lines, exporting_metrics(settings, "worker"):
        assert settings.exports_metrics

    [line] = lines
    assert (line["event"], line["port"] > 0) == ("metrics.listening", True)


@pytest.mark.usefixtures("no_exporter")
@pytest.mark.parametrize(
    ("given", "exports"),
    [
        ({"otlp_endpoint": ENDPOINT}, True),
        ({"otlp_metrics_endpoint": ENDPOINT}, True),
        ({"otlp_endpoint": ENDPOINT, "otlp_metrics_exporter": "console, otlp"}, True),
        ({"otlp_endpoint": ENDPOINT, "otlp_metrics_exporter": "none"}, False),
        ({"otlp_endpoint": ENDPOINT, "otel_disabled": "true"}, False),
        ({"otlp_endpoint": ""}, False),
    ],
)
def test_the_standard_variables_choose_otlp(given: dict[str, Any], exports: bool) -> None:
    settings = Settings(**given)
    with exporting_metrics(settings, "worker"):
        assert ("otlp metrics" in threads(), settings.exports_metrics) == (exports, exports)


def test_they_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", ENDPOINT)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")

    settings = Settings()

    assert (settings.exports_metrics_by_otlp, settings.otlp_metrics_seconds) == (True, 1.5)


@pytest.mark.parametrize("text", ["0", "60s", "", "-5", "1e3"])
def test_an_interval_that_is_not_a_number_means_a_minute_and_stops_no_command(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", text)

    assert Settings().otlp_metrics_seconds == 60.0
