"""Traces of turns by OpenTelemetry (ADR 0035): off unless its variables ask for them.

While traces are off, a process has None in place of `TurnSpans`: a step of a turn checks only that, and no module of the SDK is
imported.
"""

from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from turnstile import distribution
from turnstile.telemetry.own_log import log

if TYPE_CHECKING:
    from turnstile.telemetry.turn_spans import TurnSpans

FLUSH_SECONDS = 1.5
"""How long the end of a process, or of a Lambda invocation, waits at most for spans that are not exported yet."""

Traces: TypeAlias = "TurnSpans | None"
"""What records the spans of a process. `start` makes it once, and the parts of the process get it."""


def start(service: str, *, wanted: bool, shared: bool = False) -> Traces:
    """Begins to export the traces of this process, if they are `wanted` (`Settings.exports_traces`).

    `service` is the service's name unless OpenTelemetry's variables name it; `shared`: as in `Spans.exporting`. Without the SDK,
    or with a value that it refuses, there is a WARNING line and no recorder: platforms set these variables for whatever they run,
    so they must not keep a process from starting.
    """
    if not wanted:
        return None
    try:
        from turnstile.telemetry.spans import Spans
        from turnstile.telemetry.turn_spans import TurnSpans
    except ImportError as error:
        log.warning("tracing.off", reason=f"{error.name} is missing: {distribution.install('telemetry')}")
        return None
    try:
        traces = TurnSpans(Spans.exporting(service, shared=shared))
    except Exception as error:
        # The SDK refuses a variable, in whatever way.
        log.warning("tracing.off", reason=f"{type(error).__name__}: {error}")
        return None
    log.info("tracing.on", service=service)
    return traces


def flush(traces: Traces) -> None:
    """Exports what is recorded, within FLUSH_SECONDS. For the end of a process, or before it may be frozen."""
    if traces is not None:
        # On a thread: the exporter takes longer than its timeout if its endpoint hangs.
        flushing = Thread(target=traces.flush, args=(FLUSH_SECONDS,), name="last spans", daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
