"""The kinds of metrics. `telemetry.metrics` declares them all, on a registry of Turnstile's own: a handler may use
prometheus_client's default registry for metrics of its own.

They record only in a process that exports them: else a call is one comparison (ADR 0034). Each set of label values is looked up
once, because a look-up by prometheus_client costs more than an observation.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import prometheus_client
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from turnstile.telemetry.bounded_values import BoundedValues

NO_LIMITS: Mapping[str, BoundedValues] = {}


class Registry(CollectorRegistry):
    """Without the series `..._created`, which would double the number of series and tell nothing."""

    def collect(self) -> Iterator[Metric]:
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


REGISTRY = Registry()
# CPU seconds, resident memory, open files and start of the process, under the names that all Prometheus clients use.
prometheus_client.ProcessCollector(registry=REGISTRY)


class Recording:
    """Whether this process records. Off unless it exports its metrics."""

    is_on = False


RECORDING = Recording()


class Process(StrEnum):
    """The processes that have a metric. A worker that runs a relay has the relay's, too."""

    WORKER = "worker"
    RELAY = "relay"
    API = "API"
    MEMORY_WATCHERS = "worker, relay"
    ALL = "all"


class Instrument:
    """One metric, with what its reference says of it."""

    _make: Callable[..., Any]
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
        **more: Any,
    ) -> None:
        """`limits` bounds the labels whose values do not come from the configuration or a closed set."""
        self.process = process
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self.unit = unit
        self._limits = limits
        self._metric = type(self)._make(name, meaning, self.labels, unit=unit, registry=REGISTRY, **more)
        self._children: dict[tuple[str, ...], Any] = {}
        self._guard = threading.Lock()

    def _bind(self, values: tuple[str, ...]) -> Any:
        if not values:
            return self._metric
        bounded = tuple(
            self._limits[label].bound(value) if label in self._limits else value
            for label, value in zip(self.labels, values, strict=True)
        )
        with self._guard:
            child = self._metric.labels(*bounded)
            # Not under a value that is beyond the bound: the table would grow with every such value.
            if bounded == values:
                self._children[values] = child
        return child


class Counter(Instrument):
    """A number that only rises."""

    _make = prometheus_client.Counter
    kind = "counter"

    def add(self, amount: float, *labels: str) -> None:
        if RECORDING.is_on:
            (self._children.get(labels) or self._bind(labels)).inc(amount)


class Histogram(Instrument):
    """How often values were observed up to each of its bounds, with their number and sum."""

    _make = prometheus_client.Histogram
    kind = "histogram"

    def observe(self, value: float, *labels: str) -> None:
        if RECORDING.is_on:
            (self._children.get(labels) or self._bind(labels)).observe(value)


class Gauge(Instrument):
    """A number of this moment."""

    _make = prometheus_client.Gauge
    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        if RECORDING.is_on:
            (self._children.get(labels) or self._bind(labels)).set(value)

    def add(self, amount: float, *labels: str) -> None:
        if RECORDING.is_on:
            (self._children.get(labels) or self._bind(labels)).inc(amount)

    def watch(self, read: Callable[[], float], *labels: str) -> None:
        """Reads the value at each scrape, on the thread of the scrape: `read` must not wait and must not raise."""
        if RECORDING.is_on:
            self._bind(labels).set_function(read)

    def forget(self, *labels: str) -> None:
        """Shows nothing until the next `set`, of one series or, without `labels`, of all: a number that could not be read must
        not be told as of now."""
        if not self.labels:
            self.set(math.nan)
            return
        with self._guard:
            if labels:
                self._children.pop(labels, None)
                self._metric.remove(*labels)
            else:
                self._children.clear()
                self._metric.clear()
