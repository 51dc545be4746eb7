"""The kinds of metrics. `telemetry.metrics` declares them all, on a registry of Turnstile's own: a handler may use
prometheus_client's default registry for metrics of its own, and the scrape port serves both.

The numbers are kept here. Those of prometheus_client's own classes go into files of the folder that PROMETHEUS_MULTIPROC_DIR
names, in every process that has the variable, and a handler's metrics may need it.

Each process records, whether it exports its metrics or not: that costs a few microseconds a turn (ADR 0034).
"""

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any

import prometheus_client
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from turnstile.telemetry.bounded_values import BoundedValues

NO_LIMITS: Mapping[str, BoundedValues] = {}

REGISTRY = CollectorRegistry()
# CPU seconds, resident memory, open files and start of the process, under the names that all Prometheus clients use.
prometheus_client.ProcessCollector(registry=REGISTRY)


class Process(StrEnum):
    """The processes that have a metric. A worker that runs a relay has the relay's, too."""

    WORKER = "worker"
    RELAY = "relay"
    API = "API"
    MEMORY_WATCHERS = "worker, relay"
    ALL = "all"


class Instrument(Collector):
    """One metric, with its description for the reference."""

    kind: str

    def __init__(
        self,
        process: Process,
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        *,
        unit: str = "",
        limits: Mapping[str, BoundedValues] = NO_LIMITS,
    ) -> None:
        """`limits` bounds the labels whose values do not come from the configuration or a closed set."""
        self.process = process
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self.unit = unit
        self._limits = limits
        self._guard = threading.Lock()
        self._values: dict[tuple[str, ...], Any] = {} if labels else {(): self._zero()}
        REGISTRY.register(self)

    def _zero(self) -> Any:
        return 0.0

    def _samples(self, value: Any) -> Iterable[tuple[str, Mapping[str, str], float]]:
        """The samples of one series: ending of the name, further labels, number."""
        raise NotImplementedError

    def _find(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The key of the series, which has a value then. Only under the guard."""
        if labels in self._values:
            return labels
        bounded = tuple(
            self._limits[label].bound(value) if label in self._limits else value
            for label, value in zip(self.labels, labels, strict=True)
        )
        self._values.setdefault(bounded, self._zero())
        return bounded

    def describe(self) -> list[Metric]:
        """The metric without its samples, for the registry."""
        return [Metric(self.name.removesuffix("_total"), self.meaning, self.kind, self.unit)]

    def collect(self) -> Iterator[Metric]:
        """The metric at this moment, for the registry."""
        [family] = self.describe()
        with self._guard:
            series = [(labels, list(self._samples(value))) for labels, value in self._values.items()]
        for labels, samples in series:
            named = dict(zip(self.labels, map(str, labels), strict=True))
            for ending, more, number in samples:
                family.add_sample(family.name + ending, {**named, **more}, float(number))
        yield family


class Counter(Instrument):
    """A number that only rises."""

    kind = "counter"

    def _samples(self, value: float) -> Iterable[tuple[str, Mapping[str, str], float]]:
        return [("_total", {}, value)]

    def add(self, amount: float, *labels: str) -> None:
        with self._guard:
            self._values[self._find(labels)] += amount


class Histogram(Instrument):
    """How often values were observed up to each of its bounds, with their number and sum."""

    kind = "histogram"

    def __init__(self, *given: Any, buckets: Sequence[float] = (), **named: Any) -> None:
        self._bounds = [*map(float, buckets), math.inf]
        super().__init__(*given, **named)

    def _zero(self) -> list[float]:
        # How many values are within each bound and beyond the one before, and the sum of all.
        return [0.0] * (len(self._bounds) + 1)

    def _samples(self, value: list[float]) -> Iterable[tuple[str, Mapping[str, str], float]]:
        *counts, total = value
        up_to = list(accumulate(counts))
        for bound, count in zip(self._bounds, up_to, strict=True):
            yield "_bucket", {"le": "+Inf" if bound == math.inf else str(bound)}, count
        yield "_count", {}, up_to[-1]
        yield "_sum", {}, total

    def observe(self, value: float, *labels: str) -> None:
        with self._guard:
            series = self._values[self._find(labels)]
            series[bisect_left(self._bounds, value)] += 1
            series[-1] += value


class Gauge(Instrument):
    """A number of this moment."""

    kind = "gauge"

    def _samples(self, value: float | Callable[[], float]) -> Iterable[tuple[str, Mapping[str, str], float]]:
        return [("", {}, value() if callable(value) else value)]

    def set(self, value: float, *labels: str) -> None:
        with self._guard:
            self._values[self._find(labels)] = value

    def add(self, amount: float, *labels: str) -> None:
        with self._guard:
            self._values[self._find(labels)] += amount

    def watch(self, read: Callable[[], float], *labels: str) -> None:
        """Reads the value at each scrape, on the thread of the scrape: `read` must not wait and must not raise."""
        with self._guard:
            self._values[self._find(labels)] = read

    def forget(self, *labels: str) -> None:
        """Shows nothing until the next `set`, of one series or, without `labels`, of all: a number that could not be read must
        not look current."""
        if not self.labels:
            self.set(math.nan)
            return
        with self._guard:
            if labels:
                self._values.pop(labels, None)
            else:
                self._values.clear()
