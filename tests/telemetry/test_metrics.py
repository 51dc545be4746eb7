"""The declarations keep the conventions: names, units, labels with a bound."""

import pytest

from tests.infra.promql import Scrape, evaluate
from turnstile.telemetry import metrics
from turnstile.telemetry.instruments import REGISTRY, Counter, Histogram, Instrument
from turnstile.telemetry.metrics import ATTEMPT_RUNNING, TURN_WAITING

DECLARED = [one for one in vars(metrics).values() if isinstance(one, Instrument)]

CLOSED = {
    "queue", "outcome", "status", "result", "kind", "state", "backend", "role", "fact", "level", "route", "method", "code",
    "to", "rule",
}  # fmt: skip
"""Labels whose values are declared queues or rules, or words of the code."""

each = pytest.mark.parametrize("one", DECLARED, ids=lambda one: one.name)


@each
def test_a_name_ends_with_its_unit_and_only_a_counters_with_total(one: Instrument) -> None:
    stem, total, _ = one.name.partition("_total")

    assert bool(total) == isinstance(one, Counter)
    assert one.name.startswith("turnstile_")
    assert (
        stem.endswith(f"_{one.unit}") if one.unit else not stem.endswith(("_seconds", "_bytes", "_ratio", "_dollars"))
    )


@each
def test_a_label_is_of_a_closed_set_or_has_a_bound(one: Instrument) -> None:
    assert {label for label in one.labels if label not in CLOSED} == set(one._limits)


@each
def test_a_metric_is_served_under_its_name(one: Instrument) -> None:
    assert one.name.removesuffix("_total") in {family.name for family in REGISTRY.collect()}


@pytest.mark.parametrize(
    ("histogram", "seconds", "most"),
    [
        (ATTEMPT_RUNNING, 0.11, 0.2),
        (ATTEMPT_RUNNING, 0.25, 0.3),
        (ATTEMPT_RUNNING, 0.4, 0.5),
        (ATTEMPT_RUNNING, 11.0, 15.0),
        (ATTEMPT_RUNNING, 25.0, 30.0),
        (ATTEMPT_RUNNING, 40.0, 45.0),
        # A wake-up that was lost is sent again after a minute.
        (TURN_WAITING, 60.2, 75.0),
        (TURN_WAITING, 100.0, 120.0),
        (TURN_WAITING, 170.0, 180.0),
        (TURN_WAITING, 299.0, 300.0),
    ],
)
def test_a_quantile_reads_near_what_it_was(histogram: Histogram, seconds: float, most: float) -> None:
    labels = [f"for {seconds}", *(["succeeded"] if len(histogram.labels) == 2 else [])]
    for _ in range(1000):
        histogram.observe(seconds, *labels)
    scraped = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
    }

    expression = f'histogram_quantile(0.99, sum by (le) ({histogram.name}_bucket{{queue="for {seconds}"}}))'
    [read] = evaluate(expression, [Scrape(0.0, scraped)]).values()

    assert seconds / 1.5 < read <= most
