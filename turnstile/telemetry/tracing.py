"""Traces of turns by OpenTelemetry (ADR 0035): off unless its variables ask for them.

While traces are off, `active` is None: a step of a turn checks only that, and no module of the SDK is imported.
"""

from threading import Thread
from typing import TYPE_CHECKING

from turnstile import distribution
from turnstile.telemetry.own_log import log

if TYPE_CHECKING:
    from turnstile.telemetry.turn_spans import TurnSpans

FLUSH_SECONDS = 1.5
"""How long the end of a process, or of a Lambda invocation, waits at most for spans that are not exported yet."""


active: "TurnSpans | None" = None
"""Records the spans of this process; None: no traces are exported."""


def start(service: str, *, wanted: bool, shared: bool = False) -> None:
    """Begins to export the traces of this process, if they are `wanted` (`Settings.exports_traces`).

    `service` is the service's name unless OpenTelemetry's variables name it; `shared`: as in `Spans.exporting`. Without the SDK,
    or with a value that it refuses, there is a WARNING line instead: platforms set these variables for whatever they run, so they
    must not keep a process from starting.
    """
    global active
    if not wanted:
        return
    try:
        from turnstile.telemetry.spans import Spans
        from turnstile.telemetry.turn_spans import TurnSpans
    except ImportError as error:
        log.warning("tracing.off", reason=f"{error.name} is missing: {distribution.install('telemetry')}")
        return
    try:
        active = TurnSpans(Spans.exporting(service, shared=shared))
    except Exception as error:
        # The SDK refuses a variable, in whatever way.
        log.warning("tracing.off", reason=f"{type(error).__name__}: {error}")
        return
    log.info("tracing.on", service=service)


def flush() -> None:
    """Exports what is recorded, within FLUSH_SECONDS. For a process that may be frozen."""
    if active is not None:
        _flush(active)


def stop() -> None:
    """Exports what is recorded, within FLUSH_SECONDS, and records no more."""
    global active
    spans, active = active, None
    if spans is not None:
        _flush(spans)


def _flush(spans: "TurnSpans") -> None:
    # On a thread: the exporter takes longer than its timeout if its endpoint hangs.
    flushing = Thread(target=spans.flush, args=(FLUSH_SECONDS,), name="last spans", daemon=True)
    flushing.start()
    flushing.join(FLUSH_SECONDS)
