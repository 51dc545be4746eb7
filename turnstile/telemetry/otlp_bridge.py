"""Turns the families of a Prometheus registry into OpenTelemetry's metrics data. Imported only where OTLP is configured.

Names stay those of `docs/metrics.md`, so that dashboards and alarms read the same names whichever way the metrics came.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

SCOPE = InstrumentationScope("turnstile")
UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "dollars": "{USD}"}
"""OpenTelemetry writes units in UCUM."""


def as_metrics_data(families: Iterable[Family], resource: Resource, *, since: int, now: int) -> MetricsData:
    """All metrics at `now`; counters start at `since`. Both are nanoseconds since 1970."""
    metrics = [
        Metric(family.name, family.documentation, UNITS.get(family.unit, ""), data)
        for family in families
        if (data := _data(family, since, now)) is not None
    ]
    scope = ScopeMetrics(SCOPE, metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(family: Family, since: int, now: int) -> Sum | Gauge | Histogram | None:
    """None for a kind that Turnstile does not use."""
    match family.type:
        case "counter":
            points = [_number(sample, since, now) for sample in family.samples if sample.name.endswith("_total")]
            return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case "gauge":
            # NaN means that the value is unknown.
            return Gauge([_number(sample, 0, now) for sample in family.samples if not math.isnan(sample.value)])
        case "histogram":
            return Histogram(_histograms(family, since, now), AggregationTemporality.CUMULATIVE)
        case _:
            return None


def _number(sample: Sample, since: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(sample.labels, since, now, sample.value)


def _histograms(family: Family, since: int, now: int) -> list[HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        series.setdefault(tuple(labels.items()), []).append(sample)
    return [_histogram(family.name, dict(labels), samples, since, now) for labels, samples in series.items()]


def _histogram(
    name: str, labels: Mapping[str, str], samples: Sequence[Sample], since: int, now: int
) -> HistogramDataPoint:
    buckets = [(float(sample.labels["le"]), int(sample.value)) for sample in samples if sample.name == f"{name}_bucket"]
    # Prometheus counts each bucket with all lower ones, OpenTelemetry by itself.
    lower = [0, *(count for _, count in buckets)]
    [total] = [sample.value for sample in samples if sample.name == f"{name}_sum"]
    # Least and greatest are not known. OTLP has them as optional, the class of the SDK as numbers.
    unknown = cast("Any", None)
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=buckets[-1][1],
        sum=total,
        bucket_counts=[count - before for (_, count), before in zip(buckets, lower, strict=False)],
        explicit_bounds=[bound for bound, _ in buckets if not math.isinf(bound)],
        min=unknown,
        max=unknown,
    )
