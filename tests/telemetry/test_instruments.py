"""Instruments record by their labels, and bound them."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.conftest import ROOT
from tests.support.metric_readings import reading
from turnstile.telemetry.bounded_values import BoundedValues
from turnstile.telemetry.instruments import REGISTRY, Counter, Gauge, Histogram, Process


@pytest.fixture
def made() -> Iterator[Any]:
    """Makes instruments that leave the registry with the test."""
    instruments = []

    def make(kind: Any, *labels: str, **more: Any) -> Any:
        end = "_total" if kind is Counter else ""
        instrument = kind(Process.ALL, f"turnstile_test_{uuid4().hex}{end}", "A test's.", labels, **more)
        instruments.append(instrument)
        return instrument

    yield make
    for instrument in instruments:
        REGISTRY.unregister(instrument)


def test_each_kind_records_by_its_labels(made: Any) -> None:
    counter, histogram, gauge = made(Counter, "queue"), made(Histogram, "queue", buckets=(1, 10)), made(Gauge)

    for queue, amount in (("a", 1), ("b", 2), ("a", 3)):
        counter.add(amount, queue)
    for seconds in (0.5, 5, 50):
        histogram.observe(seconds, "a")
    gauge.set(5)
    gauge.add(-2)

    assert [reading(counter.name, queue=queue) for queue in "ab"] == [4, 2]
    counts = [reading(f"{histogram.name}_bucket", queue="a", le=le) for le in ("1.0", "10.0", "+Inf")]
    assert (counts, reading(f"{histogram.name}_sum", queue="a")) == ([1, 2, 3], 55.5)
    assert reading(gauge.name) == 3


def test_a_label_from_outside_makes_no_more_series_and_no_more_memory_than_its_bound(made: Any) -> None:
    counter = made(Counter, "queue", "model", limits={"model": BoundedValues(2)})

    for number in range(100):
        counter.add(1, "a", f"model-{number}")

    models = ("model-0", "model-1", "other", "model-2")
    assert [reading(counter.name, queue="a", model=model) for model in models] == [1, 1, 98, None]
    assert len(counter._values) == 3


def test_a_watched_gauge_has_the_value_of_the_moment(made: Any) -> None:
    gauge = made(Gauge, "queue")
    values = iter([1.0, 2.0])

    gauge.watch(lambda: next(values), "a")

    assert [reading(gauge.name, queue="a") for _ in range(2)] == [1.0, 2.0]


def test_a_forgotten_gauge_shows_no_old_number(made: Any) -> None:
    labelled, plain = made(Gauge, "queue"), made(Gauge)
    for gauge, labels in ((labelled, ["a"]), (plain, [])):
        gauge.set(7, *labels)
        gauge.forget()

    assert reading(labelled.name, queue="a") is None
    assert math.isnan(reading(plain.name) or 0.0)

    labelled.set(8, "a")
    assert reading(labelled.name, queue="a") == 8


def test_what_could_not_be_read_of_one_hides_no_other(made: Any) -> None:
    gauge = made(Gauge, "queue")
    for queue in "ab":
        gauge.set(7, queue)

    gauge.forget("a")

    assert (reading(gauge.name, queue="a"), reading(gauge.name, queue="b")) == (None, 7)
    gauge.forget("a")
    gauge.set(8, "a")
    assert reading(gauge.name, queue="a") == 8


def test_there_is_no_series_of_creation_times(made: Any) -> None:
    made(Counter, "queue").add(1, "a")

    names = {sample.name for family in REGISTRY.collect() for sample in family.samples}
    assert not [name for name in names if name.endswith("_created")]
    assert "process_resident_memory_bytes" in names


METRICS_OF_A_HANDLER = """
import os, prometheus_client
from turnstile.telemetry import metrics
from turnstile.telemetry.instruments import REGISTRY
metrics.TAKEOVERS.add(2, "turns")
assert REGISTRY.get_sample_value("turnstile_takeovers_total", {"queue": "turns"}) == 2
folder = os.environ["PROMETHEUS_MULTIPROC_DIR"]
assert not os.path.exists(folder) or os.listdir(folder) == []
if os.path.exists(folder):
    prometheus_client.Counter("theirs", "A handler's own.").inc()
    assert os.listdir(folder) == [f"counter_{os.getpid()}.db"]
"""


@pytest.mark.parametrize("exists", [True, False])
def test_the_variable_of_the_multiprocess_mode_is_for_a_handlers_metrics_only(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "none"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}

    program = [sys.executable, "-c", METRICS_OF_A_HANDLER]
    ran = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
