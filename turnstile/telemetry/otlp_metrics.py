"""The metrics by OTLP over HTTP, again and again, on a thread of their own.

No receiver delays or ends the process, however slow, silent or wrong it is: the thread is a daemon, and the last export, at the
end of the process, is waited for only for a moment. The exporter itself reads OpenTelemetry's variables (headers, certificate,
compression, timeout) and logs what it could not send.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from turnstile import distribution
from turnstile.telemetry.instruments import REGISTRY
from turnstile.telemetry.own_log import log

FLUSH_SECONDS = 1.0
"""How long the end of a process waits for the last export."""


@contextmanager
def exporting_by_otlp(process: str, interval_seconds: float) -> Iterator[None]:
    """Exports during the block, and once more at its end. Raises nothing. `process` names the service, unless a variable does."""
    ending = threading.Event()
    since = time.time_ns()
    thread = threading.Thread(
        target=_export_until, args=(ending, process, interval_seconds, since), name="otlp metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(FLUSH_SECONDS)


def _export_until(ending: threading.Event, process: str, interval_seconds: float, since: int) -> None:
    try:
        # Here, on the thread: these imports take a third of a second.
        export = _make_export(process, since)
    except ImportError as error:
        # Platforms set OpenTelemetry's variables for whatever they run, so they must not end a process.
        log.warning("metrics.no_otlp", error=f"{error.name} is missing: {distribution.install('telemetry')}")
        return
    except Exception as error:
        # The SDK refuses a variable, in whatever way.
        log.warning("metrics.no_otlp", error=f"{type(error).__name__}: {error}")
        return
    while not ending.wait(interval_seconds):
        _try(export)
    _try(export)


def _make_export(process: str, since: int) -> Callable[[], None]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.resources import Resource

    from turnstile.telemetry.otlp_bridge import as_metrics_data

    exporter = OTLPMetricExporter()
    # The variables win. Without an id of its own, the sums of two processes would be one series that goes up and down.
    given = dict(Resource.create().attributes)
    if str(given["service.name"]).startswith("unknown_service"):
        given["service.name"] = f"turnstile-{process}"
    resource = Resource({"service.instance.id": str(uuid4()), **given})

    def export() -> None:
        exporter.export(as_metrics_data(REGISTRY.collect(), resource, since=since, now=time.time_ns()))

    return export


def _try(export: Callable[[], None]) -> None:
    try:
        export()
    except OSError as error:
        # The errors of `requests` are OSErrors, too.
        log.warning("metrics.not_exported", error=f"{type(error).__name__}: {error}")
    except Exception:
        # A defect of this program, or of a gauge that is read here. It must not end the exports.
        log.exception("metrics.export_failed")
