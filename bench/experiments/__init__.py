"""The questions, one a file. `ALL` has them in the order in which they are asked."""

from bench.experiments import (
    burst,
    calls,
    drain,
    growth,
    handoff,
    latency,
    limits,
    memory,
    relay,
    sealing,
    slots,
    start,
    stream,
    submit,
    telemetry,
)

ALL = tuple(
    module.EXPERIMENT
    for module in (
        drain,
        burst,
        calls,
        start,
        latency,
        handoff,
        slots,
        submit,
        stream,
        relay,
        growth,
        memory,
        telemetry,
        limits,
        sealing,
    )
)
