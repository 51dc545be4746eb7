"""Whether and how a process exports its metrics."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from turnstile.config.settings import Settings
from turnstile.telemetry.otlp_metrics import exporting_by_otlp
from turnstile.telemetry.scrape_port import serving_metrics


@contextmanager
def exporting_metrics(settings: Settings, process: str) -> Iterator[None]:
    """Exports the metrics of this process during the block. Without a port and without OTLP, nothing leaves it.

    Raises AddressUnusableError if the port is taken.
    """
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            stack.enter_context(serving_metrics(settings.metrics_host, settings.metrics_port))
        if settings.exports_metrics_by_otlp:
            stack.enter_context(exporting_by_otlp(process, settings.otlp_metrics_seconds))
        yield
